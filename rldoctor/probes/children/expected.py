"""What a sampler is to draw: the distribution behind a model's logits and the parameters of a request, and sums over
drawn tokens whose mean and variance follow from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

# Classes of ranks by the trainer's probability (from 0), and the log-probability below which all count alike.
RANKS = {"the likeliest": (0, 1), "the second": (1, 2), "ranks 3 and 4": (2, 4), "ranks 1 to 8": (0, 8)}
MOST_RANKS, FLOOR = 8, -6.0
# After so many tokens random numbers might come again.
ECHOES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
# The least likely tokens are those below the largest of these shares below which no more than this part lies: what a
# cut, or a draw of few bits, leaves out.
UNLIKELY, TAIL = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5), 0.015
# What takes a nearly certain token for certain shows where there are only such: elsewhere chance hides it.
CERTAIN = 0.9
# What needs the likeliest tokens in order, and how many are put in order at first, and then.
CUTS, FEW = ("min_p", "top_k", "top_p"), (1024, 16384)


def distribution(logits: torch.Tensor, asked: Mapping[str, Any], before: Sequence[int] = ()) -> torch.Tensor:
    """Probabilities of the next token after what was generated ``before``, in float64. The order is vLLM's
    (vllm/v1/sample/sampler.py): tokens that are allowed, bad words, bias, temperature, min-p, top-k, top-p."""
    scores = _scored(logits, asked, before)
    if not asked.get("temperature", 1.0):
        return torch.zeros_like(scores).scatter(0, scores.argmax(), 1.0)
    chances = torch.softmax(scores / asked.get("temperature", 1.0), dim=-1)
    if not any(name in asked for name in CUTS):
        return chances
    ordered, order = _likeliest(chances, asked)
    kept = ordered >= asked.get("min_p", 0.0) * ordered[0]
    if "top_k" in asked:
        kept[int(asked["top_k"]) :] = False
    left = torch.where(kept, ordered, 0.0)
    if "top_p" in asked:
        # Of all probability, where nothing else has cut: the tail may not be among those in order.
        left = left / (left.sum() if len(asked.keys() & {"top_k", "min_p"}) else 1.0)
        left[left.cumsum(0) - left >= asked["top_p"]] = 0.0
    cut = torch.zeros_like(chances)
    cut[order] = left
    return cut / cut.sum()


def _likeliest(chances: torch.Tensor, asked: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities in order, the largest first, and their tokens: all that a parameter keeps, and of a large
    vocabulary not much more, since to sort it takes longer than all else."""
    for few in [one for one in FEW if one < len(chances)]:
        found = chances.topk(few)
        whole = (
            int(asked["top_k"]) <= few
            if "top_k" in asked
            else float(found.values[-1]) < asked["min_p"] * float(found.values[0])
            if "min_p" in asked
            else float(found.values.sum()) >= asked["top_p"]
        )
        if whole:
            return found.values, found.indices
    every = chances.sort(descending=True)
    return every.values, every.indices


def beyond(logits: torch.Tensor, asked: Mapping[str, Any], token: int, before: Sequence[int] = ()) -> float:
    """By how much logits would have to be off, at least, for a token that may not come to come: 0 for one that may,
    infinity for one that is ruled out whatever its logit."""
    scores = _scored(logits, asked, before)
    own, heat = float(scores[token]), asked.get("temperature", 1.0)
    if own == -math.inf:
        return math.inf
    if not heat:
        return (float(scores.max()) - own) / 2
    if not any(name in asked for name in CUTS):
        return 0.0
    best = float(scores.max())
    limits = [best + heat * math.log(asked["min_p"])] if "min_p" in asked else []
    kept = scores
    if "top_k" in asked:
        kept = scores.topk(min(int(asked["top_k"]), len(scores))).values
        limits.append(float(kept[-1]))
    least: float = max((limit - own) / 2 for limit in (own, *limits))
    if "top_p" in asked:
        mass = float(torch.softmax(kept / heat, dim=-1)[kept > own].sum())
        least = max(least, heat * math.log(mass / asked["top_p"]) / 2 if mass > asked["top_p"] else 0.0)
    return least


def _scored(logits: torch.Tensor, asked: Mapping[str, Any], before: Sequence[int]) -> torch.Tensor:
    """Logits of one place with all that goes before the temperature, but for penalties."""
    scores = logits.double().clone()
    if "allowed_token_ids" in asked:
        allowed = torch.full_like(scores, -math.inf)
        allowed[list(asked["allowed_token_ids"])] = 0.0
        scores += allowed
    for first, last in asked.get("bad_pairs", ()):
        if list(before[-1:]) == [first]:
            scores[last] = -math.inf
    for token, bias in asked.get("logit_bias", {}).items():
        scores[token] += bias
    return scores


def penalized(
    logits: torch.Tensor, asked: Mapping[str, Any], prompt: Sequence[int], tokens: Sequence[int]
) -> torch.Tensor:
    """Logits of each place (shape: tokens, vocabulary) after penalties: the repetition penalty counts the prompt, the
    two others only what was generated (vllm/model_executor/layers/utils.py, apply_penalties)."""
    counts = torch.zeros_like(logits)
    for place, token in enumerate(tokens[:-1]):
        counts[place + 1 :, token] += 1
    seen = counts > 0
    seen[:, list(prompt)] = True
    repeated = asked.get("repetition_penalty", 1.0)
    scores = torch.where(seen, torch.where(logits > 0, logits / repeated, logits * repeated), logits)
    return scores - asked.get("frequency_penalty", 0.0) * counts - asked.get("presence_penalty", 0.0) * (counts > 0)


def classes_of(logits: torch.Tensor, prompt: Sequence[int], tokens: Sequence[int]) -> dict[str, list[list[int]]]:
    """Classes of tokens, each as the token ids that it has at each place: by rank, of the prompt, generated before, the
    one before."""
    order = logits.topk(min(MOST_RANKS, logits.shape[1]), dim=-1).indices.tolist()
    found = {name: [row[low:high] for row in order] for name, (low, high) in RANKS.items()}
    before = [Counter(tokens[:place]) for place in range(len(tokens))]
    return {
        **found,
        "tokens of the prompt": [sorted(set(prompt))] * len(tokens),
        "repeated tokens": [list(counts) for counts in before],
        "the token before": [[], *([token] for token in tokens[:-1])],
        "tokens that came twice": [[token for token, count in counts.items() if count > 1] for counts in before],
    }


def echoes_of(tokens: Sequence[int]) -> dict[str, list[list[int]]]:
    """Classes of the token that came so many places before: random numbers that come again draw it again."""
    return {
        f"the token {lag} before": [*([] for _ in tokens[:lag]), *([token] for token in tokens[:-lag])]
        for lag in ECHOES
    }


def scores_of(
    classes: Mapping[str, list[list[int]]],
    values: Mapping[str, torch.Tensor],
    chances: torch.Tensor,
    tokens: Sequence[int],
) -> dict[str, dict[str, float]]:
    """For functions of the drawn token the sum ``observed``, its ``expected`` value and ``variance`` where each token
    is drawn with the ``chances`` at its place (shape: tokens, vocabulary), and the ``largest`` deviation of one token.
    Functions are whether it is of a class, has an even id, is of the least likely or comes in place of a nearly certain
    one, and ``values`` (by name, of that shape)."""
    means = {n: torch.stack([chances[p, ids].sum() for p, ids in enumerate(rows)]) for n, rows in classes.items()}
    counts = {n: sum(token in ids for token, ids in zip(tokens, rows)) for n, rows in classes.items()}  # noqa: B905
    means["even token ids"], counts["even token ids"] = chances[:, ::2].sum(dim=1), sum(t % 2 == 0 for t in tokens)
    own = chances.gather(1, torch.tensor(list(tokens)).unsqueeze(1)).squeeze(1)
    tail, mean = torch.tensor([_tail(row) for row in chances], dtype=own.dtype).unbind(1)
    means["the least likely"], counts["the least likely"] = mean, int((own < tail).sum())
    best = chances.amax(dim=1)
    certain = best > CERTAIN
    name = "others than a nearly certain one"
    means[name], counts[name] = (1 - best) * certain, int((certain & (own < best)).sum())
    told = {
        name: {
            "observed": float(counts[name]),
            "expected": float(mean.sum()),
            "variance": float((mean * (1 - mean)).clamp(min=0.0).sum()),
            "largest": 1.0,
        }
        for name, mean in means.items()
    }
    drawn = torch.tensor(list(tokens)).unsqueeze(1)
    for name, of in values.items():
        mean = (chances * of).sum(dim=1)
        told[name] = {
            "observed": float(of.gather(1, drawn).sum()),
            "expected": float(mean.sum()),
            "variance": float(((chances * of.square()).sum(dim=1) - mean.square()).clamp(min=0.0).sum()),
            "largest": float(of.max() - of.min()),
        }
    return told


def _tail(chances: torch.Tensor) -> tuple[float, float]:
    """Below which probability the least likely tokens of a place lie, and the probability of all of them; zeros where
    there is no such border."""
    above = chances[chances >= UNLIKELY[-1]]
    whole = float(chances.sum(dtype=torch.float64))
    for share in UNLIKELY:
        part = whole - float(above[above >= share].sum(dtype=torch.float64))
        if part <= TAIL:
            return share, max(part, 0.0)
    return 0.0, 0.0


def add_scores(total: dict[str, dict[str, float]], scores: Mapping[str, Mapping[str, float]]) -> None:
    """Adds the scores of further tokens to those of others; of ``largest`` it keeps the larger."""
    for name, found in scores.items():
        own = total.setdefault(name, dict.fromkeys(found, 0.0))
        for key, value in found.items():
            own[key] = max(own[key], value) if key == "largest" else own[key] + value


# What draws may follow in place of what is asked for.
ANY, WITHOUT = "any token", "the parameters left out"
# Shares of them.
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# Of what is less likely nothing is known but that.
LEAST = 1e-12


class Mixtures:
    """How much likelier what was drawn is if a share of the draws follows another distribution than the others, and how
    much likelier it would be if that were so: whatever else is wrong with them, wrong draws show by that of the two
    which is likelier there."""

    # What would be is taken from one place of so many: it takes all of its tokens.
    PLACES = 8

    def __init__(self) -> None:
        self._told = {share: {"share": share, "observed": 0.0, "growth": 0.0} for share in SHARES}

    def add(self, chances: torch.Tensor, others: torch.Tensor, tokens: Sequence[int]) -> None:
        """``chances`` of the tokens at their places, and what they are in the ``others`` (shape: tokens, vocabulary).
        Tokens that may not come are told elsewhere."""
        drawn = torch.tensor(list(tokens)).unsqueeze(1)
        own, other = (one.gather(1, drawn).double() for one in (chances, others))
        ratio = (other / own.clamp(min=LEAST))[own > 0]
        some, its = (one[:: self.PLACES].double() for one in (chances, others))
        some = some.clamp(min=LEAST)
        for share, told in self._told.items():
            told["observed"] += float(torch.log1p(share * (ratio - 1)).sum())
            mixed = (1 - share) * some + share * its
            told["growth"] += len(chances) / len(some) * float((mixed * torch.log(mixed / some)).sum())

    def told(self) -> list[dict[str, float]]:
        """By ``share``: ``observed`` and ``growth``, the logarithms of both."""
        return list(self._told.values())


def any_of(chances: torch.Tensor) -> torch.Tensor:
    """All tokens that may come alike."""
    possible = (chances > 0).to(chances.dtype)
    return possible / possible.sum(dim=1, keepdim=True)


class SingleTokens:
    """How often each token of a vocabulary came in long completions, beside how often it was to come."""

    WORST = 4

    def __init__(self, vocabulary: int) -> None:
        self._observed = torch.zeros(vocabulary, dtype=torch.float64)
        self._expected = torch.zeros(vocabulary, dtype=torch.float64)

    def add(self, chances: torch.Tensor, tokens: Sequence[int]) -> None:
        """``chances`` of the tokens at their places (shape: tokens, vocabulary)."""
        self._expected += chances.sum(dim=0, dtype=torch.float64)
        self._observed += torch.bincount(torch.tensor(list(tokens)), minlength=len(self._observed))

    def worst(self) -> list[dict[str, float]]:
        """Those that fit least: ``token``, ``observed`` and ``expected``."""
        off = torch.special.xlogy(self._observed, self._observed / self._expected) - self._observed + self._expected
        found = off.topk(min(self.WORST, len(off))).indices.tolist()
        return [
            {"token": token, "observed": float(self._observed[token]), "expected": float(self._expected[token])}
            for token in found
        ]
