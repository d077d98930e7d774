"""Tokens drawn after one prompt, one sampling parameter at a time, beside the distribution that the trainer's model has
there; long completions beside what it would draw token by token; and whether seeds decide what is drawn.

Arguments: ``draws`` (for each setting of one token), ``paths`` (requests of each setting of several tokens), ``long``,
``penalties`` and ``seeded`` (completions, and tokens of each), ``temperature`` (another one than 1). Records:
``trainer`` (see ``Trainer.facts``, or ``unread`` says why there is none), ``settings`` (see :func:`_row`), ``long``
(see :func:`_long`), ``pairs`` (rows with ``name``, how many ``pairs`` of draws, how many ``equal`` and the ``chance``
of one), ``seeds`` (rows with ``seed``, ``batch``, from 0 to 3, see :func:`_seeded`, and ``token_ids``), ``siblings``
(the completions of one request with a seed), ``reach``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
from expected import (
    ANY,
    FLOOR,
    WITHOUT,
    Mixtures,
    SingleTokens,
    add_scores,
    any_of,
    classes_of,
    distribution,
    echoes_of,
    penalized,
    scores_of,
)
from plain_tokens import joined, plain_tokens, tokenizer_of
from running_engine import RunningEngine, step_of
from traffic import Arrival, can_preempt, drive
from trainer import Trainer, TrainerError

PROMPT_TOKENS = 24
# The likeliest tokens each for itself, and one bin of the others; some of those that are cut. Fewer bins need fewer
# draws.
MOST_BINS, RULED_OUT = 12, 3
# top-k, top-p and min-p that keep so many tokens cut where there is something to cut, and leave something to draw; the
# last token that is kept has such a share, so that its absence shows.
KEPT, BORDER = range(3, 11), 0.08
SHARPER = 1.5
# How far apart draws are compared: random numbers may come again every so many rows of a step, or in the next step some
# rows on. A step has 64 rows.
APART = range(1, 129)
# So many times as many draws at what all others rest on: noise of a few hundred kinds shows after one prompt alone.
GROUND = 4
BIASED, BIAS = (0, 2), 1.0
# Three tokens and as many steps: so few sequences that each comes often.
STEPS = CHOICES = 3
# The largest that there are of those that have a limit.
PENALTIES = {"repetition_penalty": 1.6, "presence_penalty": 2.0, "frequency_penalty": 2.0}
# Seeds that are the same in their last eight, sixteen or 30 bits, two of them beyond 31 bits, and one that is false.
# More than 32 bits are lost on the CPU (torch: at::mt19937 takes 32).
SEEDS = (11, 11 + (1 << 8), 11 + (1 << 16), 11 + (1 << 30), 11 + (2 << 30), 11 + (3 << 30), 0)
SEEDED_TOKENS = 12
# Requests without a seed beside those.
UNSEEDED = 4
# As many rows move as requests end so soon; their seeds are none of those.
MOVED, SOONER, LATER_SEEDS = 3, 3, 1000
BETWEEN = 48
SEEDED = {"temperature": SHARPER, "max_tokens": SEEDED_TOKENS, "ignore_eos": True}
SIBLINGS = 3
# Long completions of one prompt.
GROUP = 2
# Logits of long completions that are looked at: a large vocabulary costs seconds.
MOST_LOGITS = 800_000_000


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    seeds, unseeded = _seeded(running)
    running.record("seeds", seeds)
    running.record("siblings", _siblings(running))
    try:
        trainer = Trainer(running)
    except TrainerError as why:
        running.record("unread", {name: str(why) for name in ("settings", "trainer", "long", "pairs")})
        return
    running.record("trainer", trainer.facts())
    prompt = running.prompt(PROMPT_TOKENS, salt=5)
    logits = trainer.next_logits(prompt).double()
    rows: list[dict[str, Any]] = []
    drawn: dict[str, list[int]] = {}
    for name, asked in _settings(logits, arguments["temperature"], _end(running)).items():
        if "logit_bias" in asked and not running.steerable:
            continue
        times = GROUND if name == "temperature 1" else 1
        drawn[name] = _once(running, prompt, asked, times * arguments["draws"])
        rows.append(_row(name, asked, {(): logits}, [(token,) for token in drawn[name]]))
        running.record("settings", rows)
    pairs = _pairs(drawn["temperature 1"], distribution(logits, {}))
    running.record("pairs", [*pairs, _beside_seeds(trainer, running.prompt(PROMPT_TOKENS, salt=6), unseeded)])
    if running.steerable:
        rows += _paths(running, trainer, prompt, arguments["paths"])
    running.record("settings", rows)
    long = [_long(running, trainer, "temperature 1", {}, arguments["long"])]
    running.record("long", long)
    for name, value in {**PENALTIES, "seed": 0}.items():
        size = arguments["seeded" if name == "seed" else "penalties"]
        long.append(_long(running, trainer, name, {name: value}, size))
        running.record("long", long)
    tokens = sum(row["tokens"] for row in long)
    count = len(rows) + len(PENALTIES)
    running.record("reach", {"draws": sum(row["draws"] for row in rows) + tokens, "settings": count})


def _end(running: RunningEngine) -> int | None:
    """The token that ends an answer."""
    end = getattr(tokenizer_of(running), "eos_token_id", None)
    return end if isinstance(end, int) and end < running.vocabulary else None


def _settings(logits: torch.Tensor, temperature: float, end: int | None) -> dict[str, dict[str, Any]]:
    """One parameter each, cut where rounding decides nothing: in the widest gap between neighbours. The ``end`` of an
    answer is made as likely as the likeliest token."""
    hot = {"temperature": temperature}
    k, _ = _border(logits)
    order = logits.sort(descending=True).indices.tolist()
    kept, ordered = _border(logits / temperature)
    told = ordered.exp().cumsum(0).tolist()
    settings: dict[str, dict[str, Any]] = {
        "temperature 1": {"temperature": 1.0},
        "temperature": hot,
        "top_k": {"temperature": 1.0, "top_k": k},
        # Cut after the temperature, not before it.
        "top_p": {**hot, "top_p": (told[kept - 2] + told[kept - 1]) / 2},
        # Draws with a seed are another path, and the temperature goes with the cuts there.
        "top_k of requests with seeds": {**hot, "top_k": k, "seeded": True},
        "top_p of requests with seeds": {**hot, "top_p": (told[kept - 2] + told[kept - 1]) / 2, "seeded": True},
        "min_p": {**hot, "min_p": math.exp(float((ordered[kept - 1] + ordered[kept]) / 2 - ordered[0]))},
        "logit_bias": {"temperature": 1.0, "logit_bias": {order[BIASED[0]]: -BIAS, order[BIASED[1]]: BIAS}},
    }
    if end is not None:
        lifted = {end: float(logits.max() - logits[end])}
        settings["ends of answers"] = {"temperature": 1.0, "ignore_eos": False, "logit_bias": lifted}
    return settings


def _border(logits: torch.Tensor) -> tuple[int, torch.Tensor]:
    """How many tokens to keep, and all log-probabilities in order: the widest gap behind a token that has its share."""
    ordered = torch.log_softmax(logits, dim=-1).sort(descending=True).values
    told = ordered.exp()
    visible = [n for n in KEPT if float(told[n - 1] / told[:n].sum()) >= BORDER] or [KEPT[0]]
    return max(visible, key=lambda n: float(ordered[n - 1] - ordered[n])), ordered


def _once(running: RunningEngine, prompt: list[int], asked: Mapping[str, Any], draws: int) -> list[int]:
    """So many single tokens, in two calls: completions of one request, and as many requests that ask for the same.
    Requests that are to be ``seeded`` have a seed each."""
    half, given = draws // 2, {"ignore_eos": True, **asked, "max_tokens": 1, "detokenize": False}
    if given.pop("seeded", False):
        requests = {f"draw {n}": (prompt, {**given, "seed": n + 1}) for n in range(half)}
        return [row["token_ids"][0] for row in _in_parts(running, requests)]
    calls = ({"draws": (prompt, {**given, "n": half})}, {f"draw {n}": (prompt, given) for n in range(half)})
    return [row["token_ids"][0] for call in calls for row in running.generate(call)]


def _row(
    name: str,
    asked: Mapping[str, Any],
    logits: Mapping[tuple[int, ...], torch.Tensor],
    drawn: Sequence[tuple[int, ...]],
) -> dict[str, Any]:
    """What was drawn at a setting: ``name``, ``parameters``, ``draws`` (tokens), ``places`` (one for each sequence that
    came before a draw: ``draws`` there and ``bins``, each with ``token`` (None for all the others), the ``expected``
    probability, the ``plain`` one without the parameter, the count ``observed``), ``excluded`` (draws of tokens that
    the parameter rules out), ``gap`` (nats between the last token that is kept and the first that is not, None where
    nothing is cut), ``rests_on`` (the setting without which this one can fit nothing, None for the first)."""
    parameters = {key: value for key, value in asked.items() if key != "bad_pairs"}
    # What makes the setting one of few tokens, or of another temperature, is not what it is about.
    plain = {key: value for key, value in asked.items() if key in ("temperature", "allowed_token_ids") and key != name}
    places, excluded = [], 0
    for before, scores in logits.items():
        counts = Counter(one[len(before)] for one in drawn if one[: len(before)] == before and len(one) > len(before))
        expected = distribution(scores, asked, before)
        usual = distribution(scores, plain, before)
        excluded += sum(count for token, count in counts.items() if float(expected[token]) == 0.0)
        own = [t for t in expected.topk(min(MOST_BINS - 1, len(expected))).indices.tolist() if float(expected[t]) > 0]
        own += _ruled_out(expected, usual)
        bins = [_bin(token, float(expected[token]), float(usual[token]), counts[token]) for token in own]
        rest = [1.0 - sum(one[key] for one in bins) for key in ("expected", "plain")]
        possible = sum(float(expected[token]) > 0 for token in counts if token not in own)
        if max(rest) > 1e-9 or possible:
            expects, usually = (0.0 if share <= 1e-9 and not possible else share for share in rest)
            bins.append(_bin(None, expects, usually, sum(counts[t] for t in counts if t not in own)))
        places.append({"draws": sum(counts.values()), "bins": bins})
    return {
        "name": name,
        "parameters": parameters,
        "draws": sum(place["draws"] for place in places),
        "places": places,
        "excluded": excluded,
        "gap": _gap(logits[()], asked) if {"top_k", "top_p", "min_p"} & asked.keys() else None,
        "rests_on": _ground(name, asked),
    }


def _ruled_out(expected: torch.Tensor, usual: torch.Tensor) -> list[int]:
    """The likeliest of the tokens that a parameter rules out: what an engine draws of them tells one that ignores the
    parameter from one that cuts elsewhere."""
    cut = usual.masked_fill(expected > 0, 0.0)
    return [token for token in cut.topk(min(RULED_OUT, len(cut))).indices.tolist() if float(cut[token]) > 0]


def _ground(name: str, asked: Mapping[str, Any]) -> str | None:
    if name == "temperature 1":
        return None
    if "allowed_token_ids" in asked and name != "allowed_token_ids":
        return "allowed_token_ids"
    if "ignore_eos" in asked:
        return "logit_bias"
    if "seeded" in asked:
        return name.split(" ", 1)[0]
    return "temperature" if name != "temperature" and asked["temperature"] != 1.0 else "temperature 1"


def _bin(token: int | None, expected: float, plain: float, observed: int) -> dict[str, Any]:
    return {"token": token, "expected": max(expected, 0.0), "plain": max(plain, 0.0), "observed": observed}


def _gap(logits: torch.Tensor, asked: Mapping[str, Any]) -> float:
    kept = int((distribution(logits, asked) > 0).sum())
    ordered = (logits / asked["temperature"]).sort(descending=True).values
    return float(ordered[kept - 1] - ordered[kept])


def _pairs(drawn: list[int], chances: torch.Tensor) -> list[dict[str, Any]]:
    """Draws that would be equal too often where requests share their random numbers: so many places apart in a batch,
    and those of the same place in two calls. No draw is in two pairs of a kind."""
    half = len(drawn) // 2
    kinds = {"the same places of two calls": list(zip(drawn[:half], drawn[half:]))}  # noqa: B905 - Python 3.9
    for apart in APART:
        pairs = zip(drawn, drawn[apart:])  # noqa: B905
        kinds[f"{apart} places apart"] = [pair for n, pair in enumerate(pairs) if n // apart % 2 == 0]
    chance = float(chances.square().sum())
    return [
        {"name": name, "pairs": len(pairs), "equal": sum(one == other for one, other in pairs), "chance": chance}
        for name, pairs in kinds.items()
    ]


def _paths(running: RunningEngine, trainer: Trainer, prompt: list[int], count: int) -> list[dict[str, Any]]:
    """Settings of few tokens, in which the same sequences come again and again."""
    tokenizer = tokenizer_of(running)
    plain = plain_tokens(running, tokenizer)
    allowed = _choices(trainer.next_logits(prompt), prompt, plain or range(running.vocabulary))
    usual: dict[str, Any] = {"temperature": 1.0, "allowed_token_ids": allowed}
    settings: dict[str, dict[str, Any]] = {"allowed_token_ids": usual}
    word = joined(tokenizer, allowed[1:]) if plain else None
    if word is not None:
        settings["bad_words"] = {**usual, "bad_words": [word], "bad_pairs": [allowed[1:]]}
    logits = _along(trainer, prompt, allowed)
    rows = []
    for name, asked in settings.items():
        given = {**asked, "max_tokens": STEPS, "ignore_eos": True, "detokenize": False, "n": count}
        given.pop("bad_pairs", None)
        try:
            reported = running.generate({name: (prompt, given)})
        except ValueError:  # a word that this tokenizer lets nobody forbid
            continue
        drawn = [tuple(row["token_ids"]) for row in reported]
        rows.append(_row(name, asked, logits, drawn))
    return rows


def _choices(logits: torch.Tensor, prompt: Sequence[int], ordinary: Sequence[int]) -> list[int]:
    """The likeliest token that the prompt has, and the two others that are nearest to it in probability."""
    own = [token for token in ordinary if token in set(prompt)]
    first = max(own or list(ordinary), key=lambda token: float(logits[token]))
    others = [token for token in ordinary if token not in set(prompt) and token != first]
    return [first, *sorted(others, key=lambda token: abs(float(logits[token] - logits[first])))[: CHOICES - 1]]


def _along(trainer: Trainer, prompt: Sequence[int], allowed: Sequence[int]) -> dict[tuple[int, ...], torch.Tensor]:
    """The trainer's logits after every sequence of the allowed tokens that is shorter than ``STEPS``."""
    found: dict[tuple[int, ...], torch.Tensor] = {}
    for before in product(allowed, repeat=STEPS - 1):
        for length, logits in enumerate(trainer.logits_of(prompt, before)):
            found[before[:length]] = logits.double()
    return found


def _long(
    running: RunningEngine, trainer: Trainer, name: str, asked: Mapping[str, Any], size: Sequence[int]
) -> dict[str, Any]:
    """Completions of many tokens, every token against the trainer's distribution at its place: ``name``,
    ``parameters``, ``tokens``, ``scores`` (see :func:`expected.scores_of`) and ``plain``, the same against the
    distribution without the parameters, of all ``vocabulary`` tokens those that fit least (``single``), and
    ``mixtures`` (see :class:`expected.Mixtures`) with draws of any token and with those without the parameters."""
    count, length = size
    count = max(min(count, MOST_LOGITS // (length * running.vocabulary)), 1)
    # Groups, as trainers ask for them, but where each completion has a seed of its own.
    each = 1 if "seed" in asked else GROUP
    given = {"temperature": 1.0, **asked, "max_tokens": length, "ignore_eos": True, "detokenize": False, "n": each}
    prompts = {f"long {n}": running.prompt(PROMPT_TOKENS, salt=200 + n) for n in range(max(count // each, 1))}
    told: dict[str, dict[str, dict[str, float]]] = {"scores": {}, "plain": {}}
    tokens, single = 0, SingleTokens(running.vocabulary)
    mixtures = {name: Mixtures() for name in (ANY, *([WITHOUT] if asked else []))}
    requests = {
        one: (prompt, {**given, "seed": n} if "seed" in given else given)
        for n, (one, prompt) in enumerate(prompts.items())
    }
    for row in _in_parts(running, requests):
        prompt, drawn = prompts[row["request"]], row["token_ids"]
        usual = trainer.logits_of(prompt, drawn)[:-1]
        logits = penalized(usual, asked, prompt, drawn) if asked else usual
        classes = {**classes_of(logits, prompt, drawn), **echoes_of(drawn)}
        values = {"log-probability": torch.log_softmax(logits, dim=-1).clamp(min=FLOOR)}
        for kind, of in (("scores", logits), *((("plain", usual),) if asked else ())):
            chances = torch.softmax(of, dim=-1)
            add_scores(told[kind], scores_of(classes, values, chances, drawn))
            if kind == "scores":
                single.add(chances, drawn)
                mixtures[ANY].add(chances, any_of(chances), drawn)
        if WITHOUT in mixtures:
            mixtures[WITHOUT].add(torch.softmax(logits, dim=-1), chances, drawn)
        tokens += len(drawn)
    least = {"vocabulary": running.vocabulary, "single": single.worst()}
    others = {"mixtures": {of: one.told() for of, one in mixtures.items()}}
    return {"name": name, "parameters": dict(asked), "tokens": tokens, **told, **least, **others}


def _in_parts(running: RunningEngine, requests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """In batches whose prompts fit into one step, see :func:`running_engine.fits`."""
    room = _room(running, PROMPT_TOKENS)
    names = list(requests)
    parts = [names[first : first + room] for first in range(0, len(names), room)]
    return [row for part in parts for row in running.generate({name: requests[name] for name in part})]


def _room(running: RunningEngine, tokens: int) -> int:
    """How many requests of so many tokens are read in one step."""
    return step_of(running) // tokens or 1


def _seeded(running: RunningEngine) -> tuple[list[dict[str, Any]], list[list[list[int]]]]:
    """The same requests with seeds of their own several times: then in another order, and twice beside some without,
    whose tokens are returned, too. Others that end sooner stand behind them the first time, and before them the second
    time, when rows move. In between come as many others as a count of requests might tell apart. At last they are
    preempted halfway, where the engine does that when it is told to."""
    prompt = running.prompt(PROMPT_TOKENS, salt=6)
    sooner = {f"sooner {n}": {"seed": LATER_SEEDS + n, "max_tokens": SOONER} for n in range(MOVED)}
    first = {f"seed {seed}": {"seed": seed} for seed in SEEDS}
    again = dict(reversed(first.items()))
    none: dict[str, dict[str, Any]] = {f"none {n}": {} for n in range(UNSEEDED)}
    beside = {**none, **again}
    rows, unseeded = [], []
    for batch, own in ((0, {**first, **sooner}), (1, {**sooner, **again}), (2, beside), (2, beside)):
        asked = {name: (prompt, {**SEEDED, **one}) for name, one in own.items()}
        reported = _in_parts(running, asked)
        for row in reported:
            if row["request"] in first:
                rows.append({"seed": row["seed"], "batch": batch, "token_ids": row["token_ids"]})
        if batch == 0:
            running.generate({f"between {n}": (prompt, {"max_tokens": 1}) for n in range(BETWEEN)})
        if batch == 2:
            unseeded.append([row["token_ids"] for row in reported if row["request"] in none])
    return rows + _preempted(running, prompt), unseeded


def _beside_seeds(trainer: Trainer, prompt: list[int], unseeded: Sequence[Sequence[Sequence[int]]]) -> dict[str, Any]:
    """Whether requests without a seed drew the same twice, token by token to the first that differs: a row of
    ``pairs``. The chance is the mean one of two draws, so that that of all together is theirs."""
    pairs, equal, told = 0, 0, 0.0
    for one, other in zip(*unseeded):  # noqa: B905 - Python 3.9
        for token, second, logits in zip(one, other, trainer.logits_of(prompt, one)):  # noqa: B905
            pairs += 1
            told += math.log(float(distribution(logits, {"temperature": SHARPER}).double().square().sum()))
            if token != second:
                break
            equal += 1
    chance = math.exp(told / pairs) if pairs else 1.0
    return {"name": "without a seed beside seeds", "pairs": max(pairs, 1), "equal": equal, "chance": chance}


def _preempted(running: RunningEngine, prompt: list[int]) -> list[dict[str, Any]]:
    """As many of them as find room in one step with all that they have said before."""
    if not can_preempt(running):
        return []
    seeds = SEEDS[: _room(running, PROMPT_TOKENS + SEEDED_TOKENS)]
    arrivals = [Arrival(str(seed), prompt, {**SEEDED, "seed": seed}) for seed in seeds]
    answers = drive(running, arrivals, preempt_at=SEEDED_TOKENS // 2).answers
    return [{"seed": seed, "batch": 3, "token_ids": answers[str(seed)]["token_ids"]} for seed in seeds]


def _siblings(running: RunningEngine) -> list[list[int]]:
    """The completions of one request with a seed; all their prompts fit into the smallest step (see
    :func:`_in_parts`)."""
    asked = {"siblings": (running.prompt(PROMPT_TOKENS // 2, salt=6), {**SEEDED, "seed": SEEDS[0], "n": SIBLINGS})}
    return [row["token_ids"] for row in running.generate(asked)]
