"""An engine that is used again after a caller was interrupted, between two steps and within one.

An alarm, a time limit or Ctrl-C that is caught leaves the batch's requests in the engine. Arguments: ``prompt``,
``response`` (tokens). Records: ``alone``, the right answers; ``aborted``, by the place of the interruption the call
after it when everything that was left had been aborted (:func:`batches.row`, and ``left``, how many requests those
were); ``reused``, the same when nothing was; ``afterwards``, whether the engine then answers rightly; ``reach``."""

from __future__ import annotations

import time
from typing import Any

from batches import Batch, row, take
from engine_facts import first
from report import chain
from stand import Stand

# After how many steps or model executions the interruption comes, and which of them it hits.
PLACES = {"between steps": ("step", 2), "in prefill": ("execute_model", 0), "in decode": ("execute_model", 2)}
# What still waits after so many steps without an output waits for ever.
FUTILE = 200

EXECUTORS = ("llm_engine.engine_core.engine_core.model_executor", "llm_engine.model_executor")


class Interruption(BaseException):
    """What the caller's alarm raises."""


class StuckError(RuntimeError):
    """The engine makes steps and nothing comes of them."""


def play(stand: Stand, arguments: dict[str, Any]) -> None:
    began = time.monotonic()
    first_batch, then = (Batch.of(stand, arguments["prompt"], arguments["response"], salt) for salt in (0, 50))
    # Of two tokens that are about equally likely another one may be chosen where a part of the prompt is cached.
    stand.engine.reset_prefix_cache()
    answers = then.alone()
    stand.record("alone", answers)
    calls: list[dict[str, Any]] = []
    for name, tidy in (("aborted", True), ("reused", False)):
        told: dict[str, Any] = {}
        for place in PLACES:
            told[place] = _again(stand, first_batch, then, place, tidy)
            calls.append(told[place])
            stand.record(name, told)
            abort_left(stand)
    stand.engine.reset_prefix_cache()
    last = _call(stand, then)
    stand.record("afterwards", last["ended"] == "answered" and last["token_ids"] == answers)
    stand.record(
        "reach",
        {
            "requests": sum(call["asked"] for call in calls),
            "interruptions": len(calls),
            "sampled_tokens": sum(len(tokens) for call in calls for tokens in call["token_ids"]),
            "seconds": round(time.monotonic() - began, 3),
        },
    )


def left(stand: Stand) -> list[str]:
    """The ids of the requests that are in the engine."""
    engine = stand.engine.llm_engine
    if stand.generation == "V1":
        return [str(name) for name in engine.output_processor.request_states]
    queues = [queue for s in engine.scheduler for queue in (s.running, s.waiting, s.swapped)]
    return [str(group.request_id) for queue in queues for group in queue]


def abort_left(stand: Stand) -> None:
    names = left(stand)
    try:
        stand.engine.llm_engine.abort_request(names, internal=True)  # ids as the engine itself calls them
    except TypeError:  # releases in which there is one kind of id
        stand.engine.llm_engine.abort_request(names)


def _again(stand: Stand, interrupted: Batch, then: Batch, place: str, tidy: bool) -> dict[str, Any]:
    """A batch that is interrupted, and the call that comes after it."""
    _interrupt(stand, interrupted, place)
    count = len(left(stand))
    if tidy:
        abort_left(stand)
    return {"left": count, **_call(stand, then)}


def _interrupt(stand: Stand, batch: Batch, place: str) -> None:
    name, count = PLACES[place]
    owner = stand.engine.llm_engine if name == "step" else first(stand.engine, EXECUTORS)
    work, done = getattr(owner, name), 0

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal done
        if done == count:
            raise Interruption
        done += 1
        return work(*given, **named)

    setattr(owner, name, counted)
    try:
        batch.generate()
    except Interruption:
        pass
    finally:
        delattr(owner, name)


def _call(stand: Stand, batch: Batch) -> dict[str, Any]:
    """One call of ``generate`` that gives up where the engine makes steps in vain."""
    call, engine = row(len(batch.prompts)), stand.engine.llm_engine
    work, futile = engine.step, 0

    def watched(*given: Any, **named: Any) -> Any:
        nonlocal futile
        outputs = work(*given, **named)
        futile = 0 if outputs else futile + 1
        if futile > FUTILE + batch.response:
            raise StuckError(f"{futile} steps without an output, {len(left(stand))} requests left")
        return outputs

    engine.step = watched
    try:
        take(call, batch, batch.generate())
    except Exception as error:
        call.update(ended="stuck" if isinstance(error, StuckError) else "raised", exceptions=chain(error))
    finally:
        del engine.step
    return call
