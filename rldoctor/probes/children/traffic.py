"""Drives an engine step by step: requests that arrive while others decode, and aborts in mid-flight.

``LLM.generate`` takes a batch and returns when it is done; what breaks in production is traffic that overlaps. The
engine below ``LLM`` has the same three methods in V0 and V1: ``add_request``, ``step`` and ``abort_request``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stand import Stand, logprobs


@dataclass
class Arrival:
    """A request that arrives before the engine's step ``at`` (from 0); ``abort_after`` tokens it is aborted."""

    name: str
    prompt: Sequence[int]
    parameters: Mapping[str, Any]
    at: int = 0
    abort_after: int | None = None


@dataclass
class Trace:
    """What became of the traffic. ``answers`` has one entry per request: ``prompt_tokens``, ``token_ids``,
    ``logprobs``, ``finish_reason`` (None where it never finished), ``aborted``, ``wrong_prompt`` (the answer carries
    another prompt than was asked). ``strangers`` are ids that nobody had asked for, ``twice`` those that finished more
    than once; ``longest_step`` in seconds."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    steps: int = 0
    longest_step: float = 0.0
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        return dict(vars(self))


def drive(stand: Stand, arrivals: Sequence[Arrival], most_steps: int = 20_000) -> Trace:
    """Plays the arrivals to their end, or to ``most_steps``. An answer that is missing then has no finish reason."""
    from vllm import SamplingParams

    engine, trace, began = stand.engine.llm_engine, Trace(), time.monotonic()
    waiting = sorted(arrivals, key=lambda one: one.at)
    asked = {one.name: one for one in waiting}
    while trace.steps < most_steps:
        while waiting and waiting[0].at <= trace.steps:
            one = waiting.pop(0)
            trace.answers[one.name] = {"prompt_tokens": len(one.prompt), "token_ids": [], "logprobs": []}
            trace.answers[one.name].update(finish_reason=None, aborted=False, wrong_prompt=False)
            engine.add_request(one.name, {"prompt_token_ids": list(one.prompt)}, SamplingParams(**one.parameters))
        if not engine.has_unfinished_requests():
            if not waiting:
                break
            trace.steps = waiting[0].at  # nobody is there; the next one arrives at once
            continue
        before = time.monotonic()
        for output in engine.step():
            _take(trace, asked, output)
        trace.longest_step = round(max(trace.longest_step, time.monotonic() - before), 3)
        trace.steps += 1
        for one in asked.values():
            answer = trace.answers.get(one.name)
            if answer is None or one.abort_after is None or answer["aborted"] or answer["finish_reason"]:
                continue
            if len(answer["token_ids"]) >= one.abort_after:
                engine.abort_request([one.name])
                answer["aborted"] = True
    trace.seconds = round(time.monotonic() - began, 3)
    return trace


def _take(trace: Trace, asked: Mapping[str, Arrival], output: Any) -> None:
    answer = trace.answers.get(output.request_id)
    if answer is None:
        trace.strangers.append(str(output.request_id))
        return
    if answer["finish_reason"] and output.finished:
        trace.twice.append(str(output.request_id))
    completion = output.outputs[0]
    answer["token_ids"], answer["logprobs"] = list(completion.token_ids), logprobs(completion)
    answer["finish_reason"] = completion.finish_reason if output.finished else None
    told = output.prompt_token_ids
    answer["wrong_prompt"] = told is not None and list(told) != list(asked[output.request_id].prompt)
