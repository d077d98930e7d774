"""Asynchronous engines that serve their callers badly."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

Outputs = list[Any]


def unruly(engine: Any) -> None:
    """Every fault that leaves the engine running, each for callers of its own."""
    for fault in (swapped, doubled, lost, garbled, deaf):
        fault(engine)


def swapped(engine: Any) -> None:
    """The first two callers of one kind get each other's answers."""
    core = engine.engine_core
    pair: list[Any] = []
    send = core.add_request_async

    async def sent(request: Any) -> None:
        if not request.request_id.startswith("whole-") or len(pair) == 2:
            await send(request)
            return
        pair.append(request)
        if len(pair) == 2:
            pair[0].request_id, pair[1].request_id = pair[1].request_id, pair[0].request_id
            for one in pair:
                await send(one)

    core.add_request_async = sent


def doubled(engine: Any) -> None:
    """A stream's tokens come twice."""
    _outputs(engine, "streamed-", 1, lambda one: [one] if one.finish_reason is not None else [one, one])


def lost(engine: Any) -> None:
    """What the core answers a caller does not get there."""
    _outputs(engine, "growing-", 1, lambda one: [])


def garbled(engine: Any) -> None:
    """A caller gets tokens that nobody sampled."""

    def change(one: Any) -> Outputs:
        one.new_token_ids = [token ^ 1 for token in one.new_token_ids]
        return [one]

    _outputs(engine, "growing-", 2, change)


def deaf(engine: Any) -> None:
    """The core does not hear that a request is aborted."""

    async def nothing(*_: Any) -> None:
        pass

    engine.engine_core.abort_requests_async = nothing


def killed(engine: Any) -> None:
    """The core's process falls while it answers, as when memory runs out."""
    _outputs(engine, "whole-", 1, lambda one: _signal(signal.SIGKILL, one))


def stopped(engine: Any) -> None:
    """The core's process stands still while it answers."""
    _outputs(engine, "whole-", 1, lambda one: _signal(signal.SIGSTOP, one))


def _signal(which: int, one: Any) -> Outputs:
    for process in multiprocessing.active_children():
        os.kill(process.pid or 0, which)
    return [one]


def _outputs(engine: Any, prefix: str, number: int, change: Callable[[Any], Outputs]) -> None:
    """Changes what the core says to the request which is the ``number``th of a kind to be answered."""
    processor = engine.output_processor
    seen: list[str] = []
    process = processor.process_outputs

    def changed(outputs: Outputs, *given: Any, **named: Any) -> Any:
        reported: Outputs = []
        for one in outputs:
            name = one.request_id
            if name.startswith(prefix) and name not in seen:
                seen.append(name)
            reported += change(one) if seen[number - 1 : number] == [name] else [one]
        return process(reported, *given, **named)

    processor.process_outputs = changed
