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
from running_engine import RunningEngine

# After how many steps or model executions the interruption comes, and which of them it hits.
PLACES = {"between steps": ("step", 2), "in prefill": ("execute_model", 0), "in decode": ("execute_model", 2)}
# What still waits after so many steps without an output waits for ever.
FUTILE = 200

EXECUTORS = ("llm_engine.engine_core.engine_core.model_executor", "llm_engine.model_executor")


class Interruption(BaseException):
    """What the caller's alarm raises."""


class StuckError(RuntimeError):
    """The engine makes steps and nothing comes of them."""


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    began = time.monotonic()
    first_batch, then = (Batch.of(running, arguments["prompt"], arguments["response"], salt) for salt in (0, 50))
    # Of two tokens that are about equally likely another one may be chosen where a part of the prompt is cached.
    running.engine.reset_prefix_cache()
    answers = then.alone()
    running.record("alone", answers)
    calls: list[dict[str, Any]] = []
    for name, tidy in (("aborted", True), ("reused", False)):
        reported: dict[str, Any] = {}
        for place in PLACES:
            reported[place] = _again(running, first_batch, then, place, tidy)
            calls.append(reported[place])
            running.record(name, reported)
            running.abort_left()
    running.engine.reset_prefix_cache()
    last = _call(running, then)
    running.record("afterwards", last["ended"] == "answered" and last["token_ids"] == answers)
    # Any later call would wait for them as well.
    running.unfit = bool(running.left())
    running.record(
        "reach",
        {
            "requests": sum(call["asked"] for call in calls),
            "interruptions": len(calls),
            "sampled_tokens": sum(len(tokens) for call in calls for tokens in call["token_ids"]),
            "seconds": round(time.monotonic() - began, 3),
        },
    )


def _again(running: RunningEngine, interrupted: Batch, then: Batch, place: str, tidy: bool) -> dict[str, Any]:
    """A batch that is interrupted, and the call that comes after it."""
    _interrupt(running, interrupted, place)
    count = len(running.left())
    if tidy:
        running.abort_left()
    return {"left": count, **_call(running, then)}


def _interrupt(running: RunningEngine, batch: Batch, place: str) -> None:
    name, count = PLACES[place]
    owner = running.engine.llm_engine if name == "step" else first(running.engine, EXECUTORS)
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


def _call(running: RunningEngine, batch: Batch) -> dict[str, Any]:
    """One call of ``generate`` that gives up where the engine makes steps in vain."""
    call, engine = row(len(batch.prompts)), running.engine.llm_engine
    work, futile = engine.step, 0

    def watched(*given: Any, **named: Any) -> Any:
        nonlocal futile
        outputs = work(*given, **named)
        futile = 0 if outputs else futile + 1
        if futile > FUTILE + batch.response:
            raise StuckError(f"{futile} steps without an output, {len(running.left())} requests left")
        return outputs

    engine.step = watched
    try:
        take(call, batch, batch.generate())
    except Exception as error:
        call.update(ended="stuck" if isinstance(error, StuckError) else "raised", exceptions=chain(error))
    finally:
        del engine.step
    return call
