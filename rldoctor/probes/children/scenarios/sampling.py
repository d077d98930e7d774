"""Tokens drawn after one prompt, one sampling parameter at a time, beside the distribution that the trainer's model has
there; and whether seeds decide what is drawn.

Arguments: ``draws`` (for each setting), ``temperature`` (another one than 1). Records: ``trainer`` (see
``Trainer.facts``, or ``unread`` says why there is none), ``settings`` (one row each: ``name``, ``parameters``,
``draws``, ``bins`` (``tokens``, ``expected`` probability, ``plain`` the probability without the parameter,
``observed`` count), ``excluded`` (draws of tokens that the parameter rules out), ``entropy`` of the expected
distribution in nats, ``shift`` the smallest relative error of a temperature that so many draws would show), ``seeds``
(rows with ``seed``, ``batch`` and ``token_ids``), ``reach``."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
from running_engine import RunningEngine
from trainer import Trainer, TrainerError

PROMPT_TOKENS = 24
# Cochran's rule: the approximation of the test holds from five expected draws a bin.
LEAST_EXPECTED, MOST_BINS = 5.0, 24
# top-k and top-p that keep so many tokens cut where there is something to cut, and leave something to draw.
KEPT = range(3, 13)
SHARPER = 1.5
SEEDS, SEEDED_TOKENS = (11, 22, 33, 44), 12
# Bounds of the search for the smallest shift, and a critical value as the check has it (5 standard deviations).
SHIFTS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5)


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    running.record("seeds", _seeded(running))
    try:
        trainer = Trainer(running)
    except TrainerError as why:
        running.record("unread", {"settings": str(why), "trainer": str(why)})
        return
    running.record("trainer", trainer.facts())
    prompt = running.prompt(PROMPT_TOKENS, salt=5)
    logits = trainer.next_logits(prompt)
    rows: list[dict[str, Any]] = []
    for name, parameters in _settings(logits, arguments["temperature"]).items():
        rows.append(_drawn(running, prompt, logits, name, parameters, arguments["draws"]))
        running.record("settings", rows)
    running.record("reach", {"draws": sum(row["draws"] for row in rows), "settings": len(rows)})


def _settings(logits: torch.Tensor, temperature: float) -> dict[str, dict[str, float]]:
    """One parameter each, cut where rounding decides nothing: in the widest gap between neighbours."""
    ordered = torch.log_softmax(logits, dim=-1).sort(descending=True).values
    reported = ordered.exp().cumsum(0).tolist()
    steps = [float(ordered[k - 1] - ordered[k]) for k in KEPT]
    k = KEPT[steps.index(max(steps))]
    shares = [reported[j - 1] - reported[j - 2] for j in KEPT]
    j = KEPT[shares.index(max(shares))]
    return {
        "temperature 1": {"temperature": 1.0},
        "temperature": {"temperature": temperature},
        "top_k": {"temperature": 1.0, "top_k": k},
        "top_p": {"temperature": 1.0, "top_p": (reported[j - 2] + reported[j - 1]) / 2},
        "min_p": {"temperature": 1.0, "min_p": math.exp(float((ordered[k - 1] + ordered[k]) / 2 - ordered[0]))},
    }


def distribution(logits: torch.Tensor, parameters: dict[str, float]) -> torch.Tensor:
    """Probabilities of the next token under one of the settings, in float64."""
    scaled = logits.double() / parameters.get("temperature", 1.0)
    chances = torch.softmax(scaled, dim=-1)
    ordered, order = chances.sort(descending=True)
    kept = torch.ones_like(ordered, dtype=torch.bool)
    if "top_k" in parameters:
        kept[int(parameters["top_k"]) :] = False
    if "top_p" in parameters:
        kept &= ordered.cumsum(0) - ordered < parameters["top_p"]
    if "min_p" in parameters:
        kept &= ordered >= parameters["min_p"] * ordered[0]
    cut = torch.zeros_like(chances)
    cut[order[kept]] = ordered[kept]
    return cut / cut.sum()


def _drawn(
    running: RunningEngine, prompt: list[int], logits: torch.Tensor, name: str, parameters: dict[str, float], draws: int
) -> dict[str, Any]:
    asked = {**parameters, "n": draws, "max_tokens": 1, "ignore_eos": True, "detokenize": False}
    drawn = Counter(row["token_ids"][0] for row in running.generate({name: (prompt, asked)}))
    expected = distribution(logits, parameters)
    plain = distribution(logits, {})
    grouped = _bins(expected, draws)
    bins: list[dict[str, Any]] = []
    for tokens in grouped:
        place = torch.tensor(tokens)
        bins.append(
            {
                "tokens": tokens[:3],
                "expected": float(expected[place].sum()),
                "plain": float(plain[place].sum()),
                "observed": sum(drawn[token] for token in tokens),
            }
        )
    excluded = sum(count for token, count in drawn.items() if float(expected[token]) == 0.0)
    possible = expected[expected > 0]
    return {
        "name": name,
        "parameters": parameters,
        "draws": sum(drawn.values()),
        "bins": bins,
        "excluded": excluded,
        "entropy": float(-(possible * possible.log()).sum()),
        "shift": _smallest_shift(logits, parameters, expected, grouped, draws),
    }


def _bins(expected: torch.Tensor, draws: int) -> list[list[int]]:
    """The likeliest tokens, each for itself as long as enough draws are expected of it, and one bin of the others."""
    order = expected.sort(descending=True).indices.tolist()
    possible = [token for token in order if float(expected[token]) > 0]
    own = [token for token in possible[: MOST_BINS - 1] if float(expected[token]) * draws >= LEAST_EXPECTED]
    rest = possible[len(own) :]
    if rest and own and float(expected[torch.tensor(rest)].sum()) * draws < LEAST_EXPECTED:
        rest = [own.pop(), *rest]
    return [*([token] for token in own), *([rest] if rest else [])]


def _smallest_shift(
    logits: torch.Tensor, parameters: dict[str, float], expected: torch.Tensor, bins: list[list[int]], draws: int
) -> float | None:
    """The smallest relative error of the temperature whose draws would, on average, be told from the expected ones."""
    freedom = len(bins) - 1
    for shift in SHIFTS:
        wrong = distribution(logits, {**parameters, "temperature": parameters.get("temperature", 1.0) * (1 + shift)})
        shares = [(float(wrong[torch.tensor(t)].sum()), float(expected[torch.tensor(t)].sum())) for t in bins]
        divergence = sum(p * math.log(p / q) for p, q in shares if p > 0 and q > 0)
        # The statistic is the noise's mean plus twice the draws' divergence; it must pass five standard deviations.
        if freedom > 0 and 2 * draws * divergence > 6 * math.sqrt(2 * freedom):
            return shift
    return None


def _seeded(running: RunningEngine) -> list[dict[str, Any]]:
    """The same requests with seeds of their own, twice."""
    prompt = running.prompt(PROMPT_TOKENS, salt=6)
    rows = []
    for batch in range(2):
        asked = {
            f"seed {seed}": (
                prompt,
                {"temperature": SHARPER, "seed": seed, "max_tokens": SEEDED_TOKENS, "ignore_eos": True},
            )
            for seed in SEEDS
        }
        for row in running.generate(asked):
            rows.append({"seed": row["seed"], "batch": batch, "token_ids": row["token_ids"]})
    return rows
