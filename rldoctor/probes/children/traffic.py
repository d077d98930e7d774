"""Drives an engine step by step: requests that arrive while others decode, and aborts in mid-flight.

``LLM.generate`` takes a batch and returns when it is done; what breaks in production is traffic that overlaps. The
engine below ``LLM`` has the same three methods in V0 and V1: ``add_request``, ``step`` and ``abort_request``."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine_facts import first
from running_engine import RunningEngine, logprobs

# Where the scheduler is when the engine runs in this process; V0 has a list of them.
SCHEDULERS = ("llm_engine.engine_core.engine_core.scheduler", "llm_engine.scheduler")


@dataclass
class Arrival:
    """A request that arrives before the engine's step ``at`` (from 0); ``abort_after`` tokens it is aborted. It may ask
    for an ``adapter``, a ``LoRARequest``."""

    name: str
    prompt: Sequence[int]
    parameters: Mapping[str, Any]
    at: int = 0
    abort_after: int | None = None
    adapter: Any = None


@dataclass
class Trace:
    """What became of the traffic. ``answers`` has one entry per request: ``prompt_tokens``, ``cached`` (those of
    them that the engine found in its prefix cache; None where it does not tell), ``token_ids``, ``text``, ``logprobs``,
    ``tops`` (for each token the most probable ones with their log-probabilities, as pairs; empty where the request did
    not ask for several), ``begun`` (the step that brought the first token, or None), ``finish_reason`` (None where it
    never finished), ``length`` (tokens that it is to have; None where it may end before), ``aborted``, ``aborted_at``
    (tokens that it had then, or None), ``wrong_prompt`` (the answer carries another prompt than was asked); they stand
    in the order in which the requests came.
    ``strangers`` are ids that nobody had asked for, ``twice`` those that finished more than once; ``longest_step`` in
    seconds; ``preemptions`` how often a request lost its place in the KV cache, None where the engine does not let it
    be seen."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    steps: int = 0
    longest_step: float = 0.0
    seconds: float = 0.0
    preemptions: int | None = None

    def plain(self) -> dict[str, Any]:
        return dict(vars(self))


def drive(
    running: RunningEngine,
    arrivals: Sequence[Arrival],
    most_steps: int = 20_000,
    trace: Trace | None = None,
    preempt_at: int | None = None,
) -> Trace:
    """Plays the arrivals to their end, or to ``most_steps``. An answer that is missing then has no finish reason. A
    given ``trace`` goes on, and is what is known where a step raises. Before the step ``preempt_at`` all that is under
    way loses its place in the KV cache (see :func:`can_preempt`)."""
    from vllm import SamplingParams

    engine, trace, began = running.engine.llm_engine, trace or Trace(), time.monotonic()
    preempted = Preemptions(running)
    before = (trace.preemptions or 0, trace.seconds)
    waiting = sorted(arrivals, key=lambda one: one.at)
    asked = {one.name: one for one in waiting}
    while trace.steps < most_steps:
        while waiting and waiting[0].at <= trace.steps:
            one = waiting.pop(0)
            trace.answers[one.name] = {"prompt_tokens": len(one.prompt), "token_ids": [], "logprobs": []}
            trace.answers[one.name].update(tops=[], begun=None, finish_reason=None, aborted=False, aborted_at=None)
            trace.answers[one.name].update(wrong_prompt=False, cached=None, text="", length=_length(one.parameters))
            prompt, given = {"prompt_token_ids": list(one.prompt)}, SamplingParams(**one.parameters)
            engine.add_request(one.name, prompt, given, **({"lora_request": one.adapter} if one.adapter else {}))
        if not engine.has_unfinished_requests():
            if not waiting:
                break
            trace.steps = waiting[0].at  # nobody is there; the next one arrives at once
            continue
        if trace.steps == preempt_at:
            engine.reset_prefix_cache(reset_running_requests=True)
        step = time.monotonic()
        for output in engine.step():
            _take(trace, asked, output)
        trace.longest_step = round(max(trace.longest_step, time.monotonic() - step), 3)
        trace.steps += 1
        count = preempted.count()
        trace.preemptions = None if count is None else before[0] + count
        trace.seconds = round(before[1] + time.monotonic() - began, 3)
        for one in asked.values():
            answer = trace.answers.get(one.name)
            if answer is None or one.abort_after is None or answer["aborted"] or answer["finish_reason"]:
                continue
            if len(answer["token_ids"]) >= one.abort_after:
                engine.abort_request([one.name])
                answer.update(aborted=True, aborted_at=len(answer["token_ids"]))
    return trace


def can_preempt(running: RunningEngine) -> bool:
    """Whether the engine preempts when it is told to, as trainers do that change weights amid answers (vLLM 0.12 on).
    One that schedules ahead drops a token that it has drawn already: it is not asked."""
    engine = running.engine.llm_engine
    reset = getattr(engine, "reset_prefix_cache", None)
    if reset is None or "reset_running_requests" not in inspect.signature(reset).parameters:
        return False
    return type(first(running.engine, SCHEDULERS)).__name__ == "Scheduler"


class Preemptions:
    """Counts how often requests lose their place in the KV cache: V0's scheduler counts them itself, in V1 a request
    that did carries that state until it is scheduled again, which is a later step."""

    def __init__(self, running: RunningEngine) -> None:
        found = first(running.engine, SCHEDULERS)
        self.scheduler = found[0] if isinstance(found, list) else found
        self.out: set[str] = set()
        self.seen = 0
        self.before = getattr(self.scheduler, "num_cumulative_preemption", 0)

    def count(self) -> int | None:
        """Since the beginning; to be asked after every step. None where the scheduler is not within reach."""
        if hasattr(self.scheduler, "num_cumulative_preemption"):
            return int(self.scheduler.num_cumulative_preemption - self.before)
        requests = getattr(self.scheduler, "requests", None)
        if requests is None:
            return None
        out = {name for name, one in requests.items() if getattr(one.status, "name", "") == "PREEMPTED"}
        self.seen += len(out - self.out)
        self.out = out
        return self.seen


def _length(parameters: Mapping[str, Any]) -> int | None:
    stops = not parameters.get("ignore_eos") or {"stop", "stop_token_ids"} & parameters.keys()
    return None if stops else parameters.get("max_tokens")


def _take(trace: Trace, asked: Mapping[str, Arrival], output: Any) -> None:
    answer = trace.answers.get(output.request_id)
    if answer is None:
        trace.strangers.append(str(output.request_id))
        return
    if answer["finish_reason"] and output.finished:
        trace.twice.append(str(output.request_id))
    completion = output.outputs[0]
    answer["token_ids"], answer["logprobs"] = list(completion.token_ids), logprobs(completion)
    if answer["begun"] is None and answer["token_ids"]:
        answer["begun"] = trace.steps
    answer["text"], answer["cached"] = completion.text, getattr(output, "num_cached_tokens", None)
    if (asked[output.request_id].parameters.get("logprobs") or 0) > 1:
        answer["tops"] = tops(completion)
    answer["finish_reason"] = completion.finish_reason if output.finished else None
    reported = output.prompt_token_ids
    answer["wrong_prompt"] = reported is not None and list(reported) != list(asked[output.request_id].prompt)


def tops(completion: Any) -> list[list[list[Any]]]:
    """For each sampled token the most probable ones and their log-probabilities, the likeliest first."""
    return [
        sorted(
            ([int(token), float(getattr(entry, "logprob", entry))] for token, entry in (place or {}).items()),
            key=lambda pair: -pair[1],
        )
        for place in completion.logprobs or []
    ]
