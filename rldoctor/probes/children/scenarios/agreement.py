"""Log-probabilities of the same tokens: the engine's while it decodes and when it prefills, and the trainer's; a
request alone and among others.

Arguments: ``prompt`` and ``response`` (tokens of the longest request), ``requests``, ``temperature`` (another one than
1), ``assumed`` (temperatures at which the trainer may evaluate). Records: ``trainer`` (see ``Trainer.facts``, or
``unread`` says why there is none), ``plain`` (one row per request at temperature 1: ``request``, ``prompt_tokens``,
``token_ids``, ``engine``, ``prefill``, ``trainer``), ``vocabulary`` (``token_ids`` of a prompt that takes tokens from
the whole vocabulary, its first and last ids included, with ``engine`` and ``trainer`` for all but the first),
``heated`` (``temperature``, and rows with ``engine`` and ``trainer`` by temperature), ``greedy`` (the same request
``alone`` and ``batched``: ``token_ids``, ``logprobs``, ``margins`` to the second best token), ``reach``."""

from __future__ import annotations

from typing import Any

from running_engine import RunningEngine, logprobs, prompt_logprobs
from trainer import Trainer, TrainerError

SHORTEST = 16
HEATED_REQUESTS, HEATED_TOKENS = 4, 12
BATCH = 16
# Tokens of the prompt that goes through the vocabulary.
COVERED = 768


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    trainer = _trainer(running)
    plain = _plain(running, arguments, trainer)
    covered = _vocabulary(running, trainer)
    heated = _heated(running, arguments, trainer)
    greedy = _greedy(running, arguments)
    tokens = [len(row["token_ids"]) for row in (*plain, *heated, greedy["alone"], greedy["batched"])]
    running.record(
        "reach",
        {
            "requests": len(plain) + len(heated) + 1 + BATCH,
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


def _plain(running: RunningEngine, arguments: dict[str, Any], trainer: Trainer | None) -> list[dict[str, Any]]:
    lengths = _lengths(max(arguments["prompt"], SHORTEST), arguments["requests"])
    prompts = {f"plain {i}": running.prompt(length, salt=i) for i, length in enumerate(lengths)}
    given = {"temperature": 1.0, "max_tokens": arguments["response"], "logprobs": 1, "ignore_eos": True}
    reported = running.generate({name: (prompt, given) for name, prompt in prompts.items()})
    rows = [_row(row, len(prompts[row["request"]])) for row in reported]
    running.record("plain", rows)
    for row, values in zip(rows, _prefilled(running, [[*prompts[r["request"]], *r["token_ids"]] for r in rows])):  # noqa: B905 - Python 3.9
        row["prefill"] = values[-len(row["token_ids"]) :]
    running.record("plain", rows)
    if trainer is not None:
        for row in rows:
            row["trainer"] = trainer.log_probabilities(prompts[row["request"]], row["token_ids"])[0]
        running.record("plain", rows)
    return rows


def _vocabulary(running: RunningEngine, trainer: Trainer | None) -> int:
    """A token that the engine masks or computes otherwise is hardly ever sampled; here every one has its turn where
    the vocabulary is small, else every n-th and both ends. Returns how many were compared."""
    if trainer is None:
        return 0
    # One token more is asked of the prompt.
    count = min(running.vocabulary, COVERED, int(running.options.get("max_model_len", COVERED)) - 1)
    ids = sorted({(running.vocabulary - 1) * place // max(count - 1, 1) for place in range(count)})
    # In a mixed order, so that neighbours in the vocabulary are not neighbours in the prompt.
    ids = [ids[place * 89 % len(ids)] for place in range(len(ids))] if len(ids) % 89 else ids
    (engine,) = _prefilled(running, [ids])
    reported = trainer.log_probabilities(ids[:1], ids[1:])[0]
    running.record("vocabulary", {"token_ids": ids, "engine": engine[1:], "trainer": reported})
    return len(reported)


def _prefilled(running: RunningEngine, sequences: list[list[int]]) -> list[list[Any]]:
    from vllm import SamplingParams

    # At temperature 1, since V0 tells also these after temperature.
    parameters = SamplingParams(max_tokens=1, temperature=1.0, prompt_logprobs=1)
    prompts = [{"prompt_token_ids": ids} for ids in sequences]
    return [prompt_logprobs(output) for output in running.engine.generate(prompts, parameters, use_tqdm=False)]


def _heated(running: RunningEngine, arguments: dict[str, Any], trainer: Trainer | None) -> list[dict[str, Any]]:
    temperature = arguments["temperature"]
    prompts = {f"heated {i}": running.prompt(SHORTEST + 8 * i, salt=i) for i in range(HEATED_REQUESTS)}
    given = {"temperature": temperature, "max_tokens": HEATED_TOKENS, "logprobs": 1, "ignore_eos": True}
    reported = running.generate({name: (prompt, given) for name, prompt in prompts.items()})
    temperatures = list(dict.fromkeys([1.0, temperature, *arguments["assumed"]]))
    rows = []
    for row in reported:
        prompt = prompts[row["request"]]
        at = trainer.log_probabilities(prompt, row["token_ids"], temperatures) if trainer is not None else []
        rows.append({**_row(row, len(prompt)), "trainer": {str(t): v for t, v in zip(temperatures, at)}})  # noqa: B905
    running.record("heated", {"temperature": temperature, "rows": rows})
    return rows


def _greedy(running: RunningEngine, arguments: dict[str, Any]) -> dict[str, Any]:
    given = {"temperature": 0.0, "max_tokens": arguments["response"], "logprobs": 2, "ignore_eos": True}
    lengths = _lengths(max(min(arguments["prompt"], 256), SHORTEST), BATCH)
    prompts = [running.prompt(length, salt=100 + i) for i, length in enumerate(lengths)]
    place = BATCH // 2
    reported = {"alone": _judged(running, [prompts[place]], given)[0]}
    reported["batched"] = _judged(running, prompts, given)[place]
    running.record("greedy", {**reported, "batch": BATCH})
    return reported


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
