"""Log-probabilities of the same tokens: the engine's while it decodes and when it prefills, and the trainer's; a
request alone and among others.

Arguments: ``prompt`` and ``response`` (tokens of the longest request), ``long`` (tokens of one answer), ``requests``,
``temperature`` (another one than 1), ``assumed`` (temperatures at which the trainer may evaluate). Records: ``trainer``
(see ``Trainer.facts``, or ``unread`` says why there is none), ``plain`` (one row per request at temperature 1:
``request``, ``prompt_tokens``, ``token_ids``, ``engine``, ``prefill``, ``trainer``), ``vocabulary`` (``token_ids`` of a
prompt that takes tokens from the whole vocabulary, its first and last ids included, with ``engine`` and ``trainer`` for
all but the first), ``cached`` (rows as in ``plain``, of requests whose beginning the engine has computed before, of one
that differs from such a one in the last token of its first block, of one that has two tokens of it in another order, of
one whose blocks it has computed behind others, of the turn that follows an answer, and of one whose beginning an
aborted request has left), ``power`` (``by``, and for
each tensor of the model by how much the trainer's log-probabilities move where its values are off by that part:
``mean`` and ``largest``), ``heated`` (``temperature``, and rows with ``engine`` and ``trainer`` by temperature),
``steered`` (``parameters`` that change what is drawn, and rows with ``engine`` and the ``trainer`` without them),
``read`` (the same of the heated requests' tokens where they are prompts), ``greedy`` (the same request ``alone`` and
``batched``: ``token_ids``, ``logprobs``, ``margins`` to the second best token; of the former's tokens also what the
``trainer`` gives), ``crowd`` (rows of a larger batch, with ``engine`` and ``trainer``), ``reach``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from running_engine import RunningEngine, covering, fits, logprobs, scored
from traffic import Arrival, drive
from trainer import Trainer, TrainerError

SHORTEST, COMPLETIONS = 16, 2
# Which requests end sooner than others.
SOONER = slice(2, 4)
BARE = 3
HEATED_REQUESTS, HEATED_TOKENS = 4, 12
BATCH = 16
# More than that, as a rollout has them: so many short requests, each of so many tokens.
CROWD, CROWD_PROMPT, CROWD_TOKENS = 48, 48, 8
# So many tokens are lifted so far, and what came before is penalised.
STEERED, STEERING = 8, {"logit_bias": 3.0, "repetition_penalty": 1.3}
# By what part a tensor is off when the power of the comparison is measured, and on how many tokens of how many of the
# shorter rows: each tensor takes a pass, and each token a row of logits. In 16 bits half a percent is less than a step
# between two numbers: what it shows is rounding, and not a tenth of what ten times as much shows.
DEFECT, COARSE_DEFECT, POWER_ROWS, POWER_TOKENS = 0.005, 0.05, 2, 16


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    trainer = _trainer(running)
    prompts = _prompts(running, arguments)
    plain = _plain(running, arguments, trainer, prompts)
    covered = _vocabulary(running, trainer)
    cached = _cached(running, arguments, trainer, prompts)
    _power(running, trainer, prompts, plain)
    heated = _heated(running, arguments, trainer)
    steered = _steered(running, trainer)
    greedy = _greedy(running, arguments, trainer)
    crowd = _crowd(running, trainer)
    judged = (*plain, *cached, *heated, *steered, greedy["alone"], greedy["batched"], *crowd)
    tokens = [len(row["token_ids"]) for row in judged]
    running.record(
        "reach",
        {
            "requests": len(plain) + len(cached) + len(heated) + len(steered) + 1 + BATCH + len(crowd),
            "compared_tokens": sum(tokens) + covered,
            "longest": max(row["prompt_tokens"] + len(row["token_ids"]) for row in plain),
            "ranks": 1,
        },
    )


def _trainer(running: RunningEngine) -> Trainer | None:
    try:
        trainer = Trainer(running)
    except TrainerError as why:
        running.record("unread", {"trainer": str(why)})
        return None
    running.record("trainer", trainer.facts())
    return trainer


def _lengths(longest: int, count: int) -> list[int]:
    """From the shortest to the longest."""
    return [SHORTEST + (longest - SHORTEST) * i // max(count - 1, 1) for i in range(count)]


def _prompts(running: RunningEngine, arguments: dict[str, Any]) -> dict[str, list[int]]:
    """All but the first and the last end one token before a block of the KV cache is full, at its end, or one behind
    it; two neighbours are of one length, which nothing but their tokens tells apart."""
    first, *inner, last = _lengths(max(arguments["prompt"], SHORTEST), arguments["requests"])
    block = running.block
    borders = [max(length // block, 1) * block + i % 3 - 1 for i, length in enumerate(inner)]
    borders[-1:] = borders[-2:-1] or borders[-1:]
    lengths = [first, *(min(length, last) for length in borders), last]
    return {f"plain {i}": running.prompt(length, salt=i) for i, length in enumerate(lengths)}


def _sampled(
    running: RunningEngine,
    arguments: dict[str, Any],
    prompts: Mapping[str, list[int]],
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """``own`` is what single requests ask for beside what all do."""
    given = {"temperature": 1.0, "max_tokens": arguments["response"], "logprobs": 1, "ignore_eos": True}
    asked = {name: (prompt, {**given, **(own or {}).get(name, {})}) for name, prompt in prompts.items()}
    return [_row(row, len(prompts[row["request"]])) for row in running.generate(asked)]


def _judged_by(trainer: Trainer, prompts: Mapping[str, list[int]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows with what the trainer gives their tokens."""
    for row in rows:
        row["trainer"] = trainer.log_probabilities(prompts[row["request"]], row["token_ids"])[0]
    return rows


def _plain(
    running: RunningEngine, arguments: dict[str, Any], trainer: Trainer | None, prompts: Mapping[str, list[int]]
) -> list[dict[str, Any]]:
    # The first answer is longer than the others, the last prompt has several, as a trainer asks for. Some end sooner:
    # then the last rows of the batch, which have the most blocks, move.
    long, last = next(iter(prompts)), list(prompts)[-1]
    sooner = {"max_tokens": max(arguments["response"] // 2, 1)}
    own = {**dict.fromkeys(list(prompts)[SOONER], sooner), last: {"n": COMPLETIONS}}
    rows = _sampled(running, arguments, prompts, {**own, long: {"max_tokens": arguments["long"]}})
    # Trainers ask for the sampled tokens' own log-probabilities alone, and a whole batch does.
    bare = {f"bare {i}": running.prompt(SHORTEST + 8 * i, salt=30 + i) for i in range(BARE)}
    rows += _sampled(running, arguments, bare, {name: {"logprobs": 0} for name in bare})
    prompts = {**prompts, **bare}
    running.record("plain", rows)
    for row, values in zip(rows, scored(running, [[*prompts[r["request"]], *r["token_ids"]] for r in rows])):  # noqa: B905 - Python 3.9
        row["prefill"] = values[-len(row["token_ids"]) :]
    running.record("plain", rows)
    if trainer is not None:
        running.record("plain", _judged_by(trainer, prompts, rows))
    return rows


def _cached(
    running: RunningEngine, arguments: dict[str, Any], trainer: Trainer | None, prompts: Mapping[str, list[int]]
) -> list[dict[str, Any]]:
    """A whole prompt that the engine may have in its prefix cache, the beginning of one, two that only look like it,
    blocks of two that never stood behind each other, a conversation that goes on: an answer filled its blocks; and what
    an aborted request has left."""
    block = running.block
    long = [prompt for prompt in prompts.values() if len(prompt) > 2 * block]
    if trainer is None or not long:
        return []
    # One of full blocks is found as a whole.
    known = next((prompt for prompt in long if len(prompt) % block == 0), long[0])
    other = list(known)
    other[block - 1] = 3 if other[block - 1] != 3 else 4
    turned = list(known)
    turned[1], turned[2] = turned[2], turned[1]
    again = {"whole": known, "beginning": [*known[: 2 * block], *known[:8]], "another token": other}
    again["another order"] = turned
    another = next((prompt for prompt in long if prompt != known), None)
    if another is not None:
        again["blocks of two"] = [*known[:block], *another[block : 2 * block], *known[:8]]
    # The cache is small: what was read a while ago may have left it.
    beside = [known, *([another[: 2 * block]] if another is not None else [])]
    again["next turn"] = [*_turn(running, beside), *known[:8]]
    again["aborted before"] = [*_aborted(running), *known[:8]]
    rows = _judged_by(trainer, again, _sampled(running, arguments, again))
    running.record("cached", rows)
    return rows


def _turn(running: RunningEngine, beside: Sequence[list[int]]) -> list[int]:
    """A prompt of half a block and an answer that fills it, read and drawn beside other prompts, so that all are in the
    cache."""
    prompt = running.prompt(max(running.block // 2, 1), salt=60)
    given = {"temperature": 1.0, "max_tokens": running.block, "ignore_eos": True}
    others = {f"beside {n}": (one, {**given, "max_tokens": 1}) for n, one in enumerate(beside)}
    row, *_ = running.generate({"turn": (prompt, given), **others})
    return [*prompt, *row["token_ids"]]


def _aborted(running: RunningEngine) -> list[int]:
    """Two blocks that a request has filled that was aborted."""
    prompt = running.prompt(2 * running.block, salt=61)
    given = {"temperature": 1.0, "max_tokens": 4, "ignore_eos": True}
    drive(running, [Arrival("to be aborted", prompt, given, abort_after=1)])
    return prompt


def _power(
    running: RunningEngine, trainer: Trainer | None, prompts: Mapping[str, list[int]], rows: list[dict[str, Any]]
) -> None:
    """What a small defect would show. A real model, with a pass for each of its tensors, takes too long."""
    if trainer is not None and running.made["weights"] == "written":
        judged = [(prompts[row["request"]], row["token_ids"][:POWER_TOKENS]) for row in rows[:POWER_ROWS]]
        by = DEFECT if trainer.facts()["dtype"] == "float32" else COARSE_DEFECT
        running.record("power", {"by": by, "shown": trainer.shown(by, judged)})


def _vocabulary(running: RunningEngine, trainer: Trainer | None) -> int:
    """Returns how many tokens were compared."""
    if trainer is None:
        return 0
    # One token more is asked of the prompt.
    ids = covering(running, running.limit - 1)
    (engine,) = scored(running, [ids])
    reported = trainer.log_probabilities(ids[:1], ids[1:])[0]
    running.record("vocabulary", {"token_ids": ids, "engine": engine[1:], "trainer": reported})
    return len(reported)


def _heated(running: RunningEngine, arguments: dict[str, Any], trainer: Trainer | None) -> list[dict[str, Any]]:
    temperature = arguments["temperature"]
    prompts = {f"heated {i}": running.prompt(SHORTEST + 8 * i, salt=i) for i in range(HEATED_REQUESTS)}
    given = {"temperature": temperature, "max_tokens": HEATED_TOKENS, "logprobs": 1, "ignore_eos": True}
    # Half of them have a seed, which takes another path through an engine's sampler.
    seeds = [{"seed": i} if i % 2 and fits(running, list(prompts.values())) else {} for i in range(len(prompts))]
    reported = running.generate({n: (p, {**given, **own}) for (n, p), own in zip(prompts.items(), seeds)})  # noqa: B905
    temperatures = list(dict.fromkeys([1.0, temperature, *arguments["assumed"]]))
    rows = []
    for row in reported:
        prompt = prompts[row["request"]]
        at = trainer.log_probabilities(prompt, row["token_ids"], temperatures) if trainer is not None else []
        rows.append({**_row(row, len(prompt)), "trainer": {str(t): v for t, v in zip(temperatures, at)}})  # noqa: B905
    running.record("heated", {"temperature": temperature, "rows": rows})
    if trainer is not None:
        sequences = [[*prompts[row["request"]], *row["token_ids"]] for row in rows]
        told = scored(running, sequences, temperature=temperature)
        read = [
            {"engine": values[row["prompt_tokens"] :], "trainer": row["trainer"]["1.0"]}
            for row, values in zip(rows, told)  # noqa: B905
        ]
        running.record("read", {"parameters": ["temperature"], "rows": read})
    return rows


def _steered(running: RunningEngine, trainer: Trainer | None) -> list[dict[str, Any]]:
    """Requests whose tokens are chosen by other numbers than the model's; what is told may be of the model."""
    if trainer is None or not running.steerable:
        return []
    prompts = {f"steered {i}": running.prompt(SHORTEST + 8 * i, salt=40 + i) for i in range(HEATED_REQUESTS)}
    biased = dict.fromkeys(running.prompt(STEERED, salt=9), STEERING["logit_bias"])
    asked = {**STEERING, "logit_bias": biased}
    rows = _sampled(running, {"response": HEATED_TOKENS}, prompts, dict.fromkeys(prompts, asked))
    rows = _judged_by(trainer, prompts, rows)
    running.record("steered", {"parameters": sorted(asked), "rows": rows})
    return rows


def _greedy(running: RunningEngine, arguments: dict[str, Any], trainer: Trainer | None) -> dict[str, Any]:
    given = {"temperature": 0.0, "max_tokens": arguments["response"], "logprobs": 2, "ignore_eos": True}
    lengths = _lengths(max(min(arguments["prompt"], 256), SHORTEST), BATCH)
    prompts = [running.prompt(length, salt=100 + i) for i, length in enumerate(lengths)]
    place = BATCH // 2
    reported = {"alone": _judged(running, [prompts[place]], given)[0]}
    reported["batched"] = _judged(running, prompts, given)[place]
    if trainer is not None:
        alone = reported["alone"]
        alone["trainer"] = trainer.log_probabilities(prompts[place], alone["token_ids"])[0]
    running.record("greedy", {**reported, "batch": BATCH})
    return reported


def _crowd(running: RunningEngine, trainer: Trainer | None) -> list[dict[str, Any]]:
    """Every row of a batch is looked at, the last ones, too."""
    if trainer is None or running.made["weights"] == "own":
        return []
    lengths = _lengths(max(min(CROWD_PROMPT, running.limit - CROWD_TOKENS), SHORTEST), CROWD)
    prompts = {f"crowd {i}": running.prompt(length, salt=140 + i) for i, length in enumerate(lengths)}
    rows = _sampled(running, {"response": CROWD_TOKENS}, prompts, {name: {"logprobs": 0} for name in prompts})
    rows = _judged_by(trainer, prompts, rows)
    running.record("crowd", rows)
    return rows


def _judged(running: RunningEngine, prompts: list[list[int]], given: dict[str, Any]) -> list[dict[str, Any]]:
    from vllm import SamplingParams

    asked = [{"prompt_token_ids": prompt} for prompt in prompts]
    answers = []
    for prompt, output in zip(prompts, running.engine.generate(asked, SamplingParams(**given), use_tqdm=False)):  # noqa: B905
        completion = output.outputs[0]
        best = [sorted((float(e.logprob) for e in place.values()), reverse=True) for place in completion.logprobs or []]
        answers.append(
            {
                "prompt_tokens": len(prompt),
                "token_ids": list(completion.token_ids),
                "logprobs": logprobs(completion),
                "margins": [reported[0] - reported[1] if len(reported) > 1 else None for reported in best],
            }
        )
    return answers


def _row(row: dict[str, Any], prompt_tokens: int) -> dict[str, Any]:
    return {
        "request": row["request"],
        "prompt_tokens": prompt_tokens,
        "token_ids": row["token_ids"],
        "engine": row["logprobs"],
    }
