"""One batch of requests that differ in all that a request can ask for, more of them than there are rows in a small
batch, of different lengths, so that rows move and are filled anew while others decode.

What a parameter does alone is the ``sampling`` scenario's; here each token is held against the distribution of its own
request. Every other request of a kind asks for three completions, as groups do.

Arguments: ``each`` (requests of a kind), ``shortest`` and ``longest`` (tokens), ``more`` (tokens by which the last ones
are longer), ``own`` (the launch's parameters, or none). Records: ``trainer`` (or ``unread`` says why there is none),
``kinds`` (one for each combination of parameters: ``name``, ``requests``, ``tokens``, ``scores`` as in
``expected.scores_of``, ``mixtures`` as in ``expected.Mixtures``, and ``outside``, the tokens that may not come:
``request``, ``place``, ``token``, and ``by``, how far logits would have to be off for it, None for any), ``lengths``
(completions that are not as long as asked for), ``imposed`` (by kind the completions that end in tokens which another
request of the batch is allowed, and no others: ``request``, ``index``, ``place`` of the first of them), ``reach``."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from expected import (
    ANY,
    FLOOR,
    WITHOUT,
    Mixtures,
    add_scores,
    any_of,
    beyond,
    classes_of,
    distribution,
    penalized,
    scores_of,
)
from plain_tokens import joined, plain_tokens, tokenizer_of
from running_engine import RunningEngine
from trainer import Trainer, TrainerError

# Prompts of different lengths: what knows of their tokens has to know where each ends.
SHORTEST_PROMPT, LONGEST_PROMPT = 12, 28
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
MODERATE = dict(zip(PENALTIES, (1.3, 1.0, 0.5)))  # noqa: B905 - Python 3.9
# Which of the allowed tokens are biased, and by how much. LOWERED puts logits below zero, where a repetition penalty
# multiplies and does not divide; what is HALVED still comes, and a bias of half of it is told apart by twice the
# evidence at -2.5 that there is at -1.5; what is BANNED, as users do it, does not come.
BIAS = 3.0
LIFTED, LOWERED = (slice(1), BIAS), (slice(None), -8.0)
HALVED, BANNED = (slice(None, None, 2), -2.5), (slice(None, None, 2), -100.0)
# Tokens that requests may name.
ORDINARY = 64
# More entries of a list than a small one has, of which each comes often enough where it is hot.
MANY = 48
# What a request asks for beside its length; ``allowed``, ``forbidden``, ``biased`` and ``word`` are numbers of tokens,
# ``bias`` is for some of the allowed ones. Of few tokens each comes back soon enough for penalties to tell whether it
# did, and how often; where it is hot, what lies behind the likeliest ones comes, too.
KINDS: dict[str, dict[str, Any]] = {
    "temperature 0": {"temperature": 0.0},
    "temperature 0.5": {"temperature": 0.5},
    "temperature 1": {},
    # A cut of what is not likely, which nobody asked for, shows in so many times as many requests.
    "temperature 2": {"temperature": 2.0, "times": 3},
    "top_k": {"top_k": 4},
    "top_k 1": {"top_k": 1},
    "top_p": {"top_p": 0.7},
    "min_p": {"min_p": 0.2},
    "top_k with top_p": {"temperature": 1.5, "top_k": 8, "top_p": 0.6},
    # V0 cuts by min_p last, V1 first: of what is at least a fifth as likely as the likeliest both keep all.
    "min_p with top_p": {"temperature": 2.0, "top_p": 0.99, "min_p": 0.2},
    "allowed_token_ids": {"allowed": 6},
    "allowed_token_ids of many": {"temperature": 2.0, "allowed": MANY},
    "bad_words": {"allowed": 6, "forbidden": 2},
    "bad_words of many": {"temperature": 2.0, "allowed": MANY, "forbidden": MANY - 6},
    "logit_bias": {"biased": MANY, "ends": True},
    # Of the tokens of the smallest id, which is no sign of there being none.
    "logit_bias above 0": {"allowed": 6, "ends": True, "bias": LIFTED},
    "logit_bias below 0": {"allowed": 6, "bias": HALVED, "times": 3},
    "logit_bias of -100": {"allowed": 6, "bias": BANNED},
    "repetition_penalty": {"allowed": 24, "bias": LOWERED, "repetition_penalty": 1.4},
    # The most that may be asked for.
    "presence_penalty": {"allowed": MANY, "presence_penalty": 2.0, "times": 2},
    "frequency_penalty": {"allowed": 3, "frequency_penalty": 2.0},
    "presence_penalty below 0": {"allowed": 24, "presence_penalty": -2.0},
    "frequency_penalty below 0": {"allowed": 24, "frequency_penalty": -0.3},
    # Rows of a batch are filled up to the longest one: what they are filled with is no token that came.
    "frequency_penalty at the ends of the vocabulary": {"allowed": 3, "ends": True, "frequency_penalty": 0.5},
    "repetition_penalty of few": {"allowed": 6, "repetition_penalty": 1.3},
    "repetition_penalty below 1": {"allowed": 24, "repetition_penalty": 0.8},
    "top_k 40": {"temperature": 2.0, "top_k": 40},
    "top_p 0.3": {"temperature": 2.0, "top_p": 0.3},
    # Where nearly all is the likeliest token, 0.3 in place of 0.2 takes as many.
    "temperature 0.2": {"temperature": 0.2, "times": 3},
    "top_p 0.95": {"temperature": 2.0, "top_p": 0.95},
    "min_p 0.05": {"temperature": 2.0, "min_p": 0.05},
    # What parameters do beside each other: where one cuts what another has not changed yet, or is not looked at. That a
    # temperature divides what goes before it shows in so many times as many requests.
    "bad_words at temperature 0": {"temperature": 0.0, "allowed": 6, "forbidden": 2},
    "penalties at temperature 0": {"temperature": 0.0, "allowed": 24, "bias": LIFTED, **MODERATE},
    "penalties at temperature 0.5": {"temperature": 0.5, "allowed": 24, **MODERATE, "times": 3},
    "logit_bias at temperature 2": {"temperature": 2.0, "allowed": 3, "bias": LIFTED, "times": 3},
    "top_k and top_p of allowed_token_ids": {"temperature": 1.5, "allowed": 24, "top_k": 6, "top_p": 0.8},
    "min_p of allowed_token_ids": {"temperature": 0.5, "allowed": 24, "min_p": 0.2},
    # One of three tokens: the last may not come behind the two others.
    "bad_words of several tokens": {"allowed": 3, "word": 3},
}
# What a request rules out as tokens, which it names as text.
OWN = ("ruled_out", "word")
LAUNCH = "the launch's own parameters"
NUMBERS, TURNED = ("allowed", "forbidden", "biased", "word"), ("bias", "ends", "times")
# So many tokens behind each other are of a set of few by chance alone where nothing else is likely.
IMPOSED = 16
# The least change of a log-probability beyond which all count alike.
MOST_EFFECT = 2.0


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    try:
        trainer = Trainer(running)
    except TrainerError as why:
        running.record("unread", {name: str(why) for name in ("trainer", "kinds")})
        return
    running.record("trainer", trainer.facts())
    asked = _requests(running, arguments)
    prompts = {name: _prompt(running, n) for n, name in enumerate(asked)}
    given = {name: (prompts[name], {k: v for k, v in one.items() if k not in OWN}) for name, one in asked.items()}
    rows = running.generate(given)
    kinds: dict[str, dict[str, Any]] = {}
    mixtures: dict[str, dict[str, Mixtures]] = {}
    for row in rows:
        name = row["request"].rpartition(" ")[0]
        kind = kinds.setdefault(name, {"name": name, "requests": 0, "tokens": 0, "scores": {}, "outside": []})
        kind["temperature"] = row["temperature"]
        own = mixtures.setdefault(name, {ANY: Mixtures(), WITHOUT: Mixtures()})
        _judge(trainer, kind, own, row, prompts[row["request"]], asked[row["request"]])
    for name, own in mixtures.items():
        kinds[name]["mixtures"] = {of: one.told() for of, one in own.items()}
    running.record("lengths", sum(len(row["token_ids"]) != row["max_tokens"] for row in rows))
    running.record("kinds", list(kinds.values()))
    running.record("imposed", _imposed(rows, asked))
    running.record("reach", {"requests": len(rows), "sampled_tokens": sum(kind["tokens"] for kind in kinds.values())})


def _requests(running: RunningEngine, arguments: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each request asks for, kinds by turns, so that neighbours in the batch are of different ones."""
    tokenizer = tokenizer_of(running)
    words = [token for token in plain_tokens(running, tokenizer) if joined(tokenizer, [token])]
    ordinary = _ordinary(running)
    # Of what the tokenizer knows: a request may name no other.
    ends = [0, min(running.vocabulary, len(tokenizer) if tokenizer else running.vocabulary) - 1]
    shortest, longest = arguments["shortest"], arguments["longest"]
    asked: dict[str, dict[str, Any]] = {}
    kinds = {**KINDS, **({LAUNCH: arguments["own"]} if arguments["own"] else {})}
    repeated = [(name, kind, n) for name, kind in kinds.items() for n in range(kind.get("times", 1))]
    for round_ in range(arguments["each"]):
        for number, (name, kind, again) in enumerate(repeated):
            turn = round_ * kind.get("times", 1) + again
            forbids = kind.keys() & {"forbidden", "word"}
            own, few = words if forbids else ordinary, max(kind.get(one, 0) for one in NUMBERS)
            if len(own) < few or (few and not running.steerable):
                continue
            # Each once, whatever their number is divisible by.
            turned = [own[(turn + 3 * place) % len(own)] for place in range(len(own))]
            tokens = list(dict.fromkeys([*turned, *own]))[:few]
            if "word" in kind and joined(tokenizer, tokens) is None:
                continue
            if "ends" in kind:
                tokens[:2] = ends
            given: dict[str, Any] = {"temperature": 1.0, "ignore_eos": True, "detokenize": False}
            given["max_tokens"] = shortest + (turn * 7 + number * 5) % (longest - shortest + 1)
            # The last ones go on for long, so that their rows move as others end, and none comes after them.
            if round_ == arguments["each"] - 1:
                given["max_tokens"] = min(given["max_tokens"] + arguments["more"], running.limit - LONGEST_PROMPT)
            given.update({key: value for key, value in kind.items() if key not in (*NUMBERS, *TURNED)})
            # Half of the completions are not the first of their request; vLLM lets a greedy one ask for one.
            given["n"] = 1 + turn % 2 * 2 if given["temperature"] else 1
            if "allowed" in kind:
                given["allowed_token_ids"] = sorted(set(tokens))
            if "forbidden" in kind:
                given["ruled_out"] = tokens[: kind["forbidden"]]
                given["bad_words"] = [str(tokenizer.decode([token])) for token in given["ruled_out"]]
            if "word" in kind:
                given["word"] = tokens[: kind["word"]]
                given["bad_words"] = [str(tokenizer.decode(given["word"]))]
            if "biased" in kind:
                given["logit_bias"] = {token: BIAS * (-1) ** place for place, token in enumerate(tokens)}
            if "bias" in kind:
                some, value = kind["bias"]
                given["logit_bias"] = dict.fromkeys(given["allowed_token_ids"][some], value)
            asked[f"{name} {turn}"] = given
    return asked


def _prompt(running: RunningEngine, number: int) -> list[int]:
    """Ends, where it is longer than the shortest, in tokens that others are allowed: what stays of it in its row is not
    without effect on who comes next."""
    length = SHORTEST_PROMPT + number % (LONGEST_PROMPT - SHORTEST_PROMPT + 1)
    ordinary = _ordinary(running)
    tail = [ordinary[(number + place) % len(ordinary)] for place in range(length - SHORTEST_PROMPT)]
    return [*running.prompt(SHORTEST_PROMPT, salt=300 + number), *tail]


def _ordinary(running: RunningEngine) -> list[int]:
    return list(dict.fromkeys(running.prompt(ORDINARY, salt=9)))


def _imposed(rows: Sequence[Mapping[str, Any]], asked: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A mask that stays in its row, or is copied into another, holds from then on to the end of a completion."""
    allowed = {frozenset(one["allowed_token_ids"]) for one in asked.values() if "allowed_token_ids" in one}
    found: dict[str, list[Any]] = {}
    for row in rows:
        if "allowed_token_ids" in asked[row["request"]]:
            continue
        tokens = row["token_ids"]
        # Those of one set alone, from this place on.
        place = min((_last_outside(tokens, one) + 1 for one in allowed), default=len(tokens))
        if len(tokens) - place >= IMPOSED:
            name = row["request"].rpartition(" ")[0]
            found.setdefault(name, []).append({"request": row["request"], "index": row["index"], "place": place})
    return found


def _last_outside(tokens: Sequence[int], allowed: Collection[int]) -> int:
    return max((place for place, token in enumerate(tokens) if token not in allowed), default=-1)


def _judge(
    trainer: Trainer,
    kind: dict[str, Any],
    mixtures: Mapping[str, Mixtures],
    row: Mapping[str, Any],
    prompt: Sequence[int],
    asked: Mapping[str, Any],
) -> None:
    """Adds what one completion shows to its kind, and to the kind's mixtures."""
    tokens = drawn = row["token_ids"]
    if not drawn:
        return
    usual = trainer.logits_of(prompt, drawn)[:-1]
    if "allowed_token_ids" in asked:
        usual, prompt, tokens, asked = _narrowed(usual, prompt, drawn, asked)
    usual = usual.double()
    if any(name in asked for name in PENALTIES):
        # Bias goes before penalties, and is not what these requests are about.
        for token, bias in asked.get("logit_bias", {}).items():
            usual[:, token] += bias
        asked = {key: value for key, value in asked.items() if key != "logit_bias"}
        logits = penalized(usual, asked, prompt, tokens)
    else:
        logits = usual.clone()
    if "ruled_out" in asked:
        logits[:, asked["ruled_out"]] = -math.inf
    if "word" in asked:
        *beginning, last = asked["word"]
        for place in range(len(beginning), len(tokens)):
            if list(tokens[place - len(beginning) : place]) == beginning:
                logits[place, last] = -math.inf
    kind["requests"] += row["index"] == 0
    kind["tokens"] += len(tokens)
    for place, token in enumerate(tokens):
        by = beyond(logits[place], asked, token)
        if by > 0:
            least = None if by == math.inf else by
            kind["outside"].append({"request": row["request"], "place": place, "token": drawn[place], "by": least})
    if not asked["temperature"]:
        return
    # Sums over a large vocabulary take three times as long in 64 bits.
    chances = torch.stack([distribution(one, asked).float() for one in logits])
    without = {key: value for key, value in asked.items() if key == "allowed_token_ids"}
    plain = torch.stack([distribution(one, without).float() for one in usual])
    told = chances.log()
    values = {
        "log-probability": told.clamp(min=FLOOR),
        "what the parameters change": (told - plain.log()).nan_to_num(0.0).clamp(-MOST_EFFECT, MOST_EFFECT),
    }
    add_scores(kind["scores"], scores_of(classes_of(logits, prompt, tokens), values, chances, tokens))
    mixtures[ANY].add(chances, any_of(chances), tokens)
    mixtures[WITHOUT].add(chances, plain, tokens)


def _narrowed(
    logits: torch.Tensor, prompt: Sequence[int], tokens: Sequence[int], asked: Mapping[str, Any]
) -> tuple[torch.Tensor, list[int], list[int], dict[str, Any]]:
    """The same in a vocabulary of the tokens that may come and those that came, by their places in it: of the others
    nothing is told."""
    ids = sorted({*asked["allowed_token_ids"], *tokens})
    place = {token: number for number, token in enumerate(ids)}
    named = {name: [place[token] for token in asked[name]] for name in ("allowed_token_ids", *OWN) if name in asked}
    bias = {place[token]: value for token, value in asked.get("logit_bias", {}).items() if token in place}
    return (
        logits[:, ids],
        [place[token] for token in prompt if token in place],
        [place[token] for token in tokens],
        {**asked, **named, **({"logit_bias": bias} if bias else {})},
    )
