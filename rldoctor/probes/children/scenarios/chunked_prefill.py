"""Long prompts that arrive while others decode and fill the KV cache, so that decoding overflows it; some are aborted
in mid-flight.

Arguments: ``prompt`` and ``response`` (tokens, the longest that the launch plans), ``single`` (tokens of a prompt that
comes alone when all others are done, whose last chunk is a single one, as a token that is decoded is; or None).
Records: ``cache_tokens``, ``trace`` (see ``traffic.Trace``; also where a step raised), ``trainer`` (by request the
trainer's log-probabilities of its tokens; ``unread`` says why there are none), ``gone_on`` (completions of an aborted
request of several that the engine still holds some steps later; None where it does not tell), ``waited_on`` (the same
of a request that was aborted before its first step), ``passed_over`` (how many that came behind that one were not
answered), ``reach``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine_facts import first
from running_engine import CACHES, RunningEngine
from traffic import SCHEDULERS, Arrival, Trace, drive
from trainer import Trainer, TrainerError

# Steps between two arrivals: short enough that prefill and decode share steps, and that the first are still there when
# the last comes.
SPACING = 1
# Of the longest prompt, one after another.
PARTS = (0.25, 1.0, 0.5, 1.0)
# The last of them are of one block each, or of a few tokens less, and grow into a second one that is not there: with
# one token of theirs, or several.
LAST, LESS = 12, (0, 4, 8)
ABORTED = 5  # every fifth request
MOST_REQUESTS = 64
# The likeliest tokens told with each sampled one: where two engines part, each must know the other's token.
TOPS = 5
# A scheduler that cannot place a request takes empty steps for ever.
MOST_STEPS = 2_000
# Tokens of a request behind an aborted one.
BEHIND = 4
# Steps beside those of an answer's tokens, in which it begins.
SETTLING = 8


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    cache = first(running.engine, CACHES)
    block, blocks = running.block, int(cache.num_gpu_blocks)
    running.record("cache_tokens", block * blocks)
    prompt, response = arguments["prompt"], arguments["response"]
    lengths = prompts(prompt, block, blocks)
    arrivals = [_arrival(running, number, length, response) for number, length in enumerate(lengths)]
    trace = Trace()
    try:
        drive(running, arrivals, MOST_STEPS, trace)
        if arguments["single"]:
            alone = _arrival(running, len(arrivals), arguments["single"], response)
            arrivals.append(replace(alone, at=0, abort_after=None))
            drive(running, arrivals[-1:], trace.steps + MOST_STEPS, trace)
    finally:
        running.record("trace", trace.plain())
    _trained(running, arrivals, trace)
    for name, held in _gone_on(running, response).items():
        running.record(name, held)
    running.record(
        "reach",
        {
            "requests": len(arrivals),
            "prompt_tokens": sum(len(one.prompt) for one in arrivals),
            "sampled_tokens": sum(len(answer["token_ids"]) for answer in trace.answers.values()),
            "longest": max(len(one.prompt) for one in arrivals) + response,
            "steps": trace.steps,
            "preemptions": trace.preemptions,
            "seconds": trace.seconds,
        },
    )


def _gone_on(running: RunningEngine, response: int) -> dict[str, int | None]:
    """The engine's front knows no more of what it aborted; its core may."""
    from vllm import SamplingParams

    engine, scheduler = running.engine.llm_engine, first(running.engine, SCHEDULERS)
    requests = getattr(scheduler, "requests", None)
    if requests is None:
        return {"gone_on": None, "waited_on": None, "passed_over": None}
    given = {"temperature": 1.0, "max_tokens": response, "ignore_eos": True}
    group, behind = (running.prompt(running.block, salt=90 + n) for n in range(2))
    drive(running, [Arrival("group", group, {**given, "n": 2}, abort_after=1)], MOST_STEPS)
    # What was under way has its steps to end.
    last = Arrival("behind", behind, {**given, "max_tokens": min(response, BEHIND)})
    drive(running, [last], MOST_STEPS)
    held = len(requests)
    engine.add_request("waiting", {"prompt_token_ids": group}, SamplingParams(**given))
    engine.add_request("next", {"prompt_token_ids": behind}, SamplingParams(**given))
    engine.abort_request(["waiting"])
    answered = 0
    # One that is never answered would be waited for.
    for _ in range(response + SETTLING):
        answered += sum(one.request_id == "next" and one.finished for one in engine.step())
    engine.abort_request(["next"])
    drive(running, [last], MOST_STEPS)
    return {"gone_on": held, "waited_on": len(requests) - held, "passed_over": 1 - answered}


def _trained(running: RunningEngine, arrivals: list[Arrival], trace: Trace) -> None:
    try:
        if running.made["weights"] == "own":
            raise TrainerError("a real model is not run a second time over so much traffic")
        trainer = Trainer(running)
    except TrainerError as why:
        running.record("unread", {"trainer": str(why)})
        return
    answered = {one.name: (one.prompt, trace.answers[one.name]["token_ids"]) for one in arrivals}
    reported = {name: trainer.log_probabilities(*given)[0] for name, given in answered.items() if given[1]}
    running.record("trainer", reported)


def prompts(longest: int, block: int, blocks: int) -> list[int]:
    """Lengths of prompts that fill so many blocks, so that whoever decodes takes another one's place."""
    lengths: list[int] = []
    left = blocks - LAST
    while left > 0 and len(lengths) < MOST_REQUESTS:
        wanted = max(int(longest * PARTS[len(lengths) % len(PARTS)]), block)
        lengths.append(min(wanted, left * block))
        left -= -(-lengths[-1] // block)
    return lengths + [max(min(block, longest) - LESS[number % len(LESS)], 1) for number in range(LAST)]


def _arrival(running: RunningEngine, number: int, length: int, response: int) -> Arrival:
    return Arrival(
        name=f"request {number}",
        prompt=running.prompt(length, salt=number + 1),
        parameters={"temperature": 0.0, "max_tokens": response, "logprobs": running.tops(TOPS), "ignore_eos": True},
        at=number * SPACING,
        abort_after=max(1, response // 2) if number % ABORTED == ABORTED - 1 else None,
    )
