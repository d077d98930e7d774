"""Engines that fail under traffic: prompts in chunks, a cache that overflows, aborts."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import engine_facts

SCHEDULER = "llm_engine.engine_core.engine_core.scheduler"
MODEL = f"{engine_facts.WORKERS[0]}.model_runner.model"
# Requests of the scenario; those of the engine's first samples have other names.
MIDDLE = "request 5"
CHUNK = 512


def of(llm: Any, place: str) -> Any:
    return engine_facts.first(llm, (place,))


def in_the_middle(llm: Any, act: Callable[[Any], None]) -> None:
    """Does something to the scheduler at the step after the sixth request has begun to run."""
    scheduler = of(llm, SCHEDULER)
    schedule = scheduler.schedule

    def scheduled(*reported: Any, **named: Any) -> Any:
        if any(str(one.request_id).startswith(MIDDLE) for one in scheduler.running):
            act(scheduler)
        return schedule(*reported, **named)

    scheduler.schedule = scheduled


def scheduler_assertion(llm: Any) -> None:
    """A scheduler that has lost count of its budget; it asserts on it by itself."""
    in_the_middle(llm, lambda scheduler: setattr(scheduler, "max_num_scheduled_tokens", -1))


def hang(llm: Any) -> None:
    """A step that never ends."""
    in_the_middle(llm, lambda _: time.sleep(3600))


def killed(llm: Any) -> None:
    """What the kernel does when memory runs out."""
    in_the_middle(llm, lambda _: os.kill(os.getpid(), 9))


def positions_restart(llm: Any) -> None:
    """Every chunk of a prompt counts its positions from the start."""

    def restart(_: Any, given: Any, named: dict[str, Any]) -> Any:
        return given, {**named, "positions": named["positions"] % CHUNK}

    of(llm, MODEL).register_forward_pre_hook(restart, with_kwargs=True)


def nan_in_chunks_and_a_lost_request(llm: Any) -> None:
    """Kernels that give no numbers where a chunk fills the whole budget, and a scheduler that drops a request."""

    def spoil(_: Any, __: Any, hidden: Any) -> Any:
        return hidden.fill_(float("nan")) if len(hidden) == CHUNK else hidden

    of(llm, MODEL).register_forward_hook(spoil)
    scheduler = of(llm, SCHEDULER)
    add = scheduler.add_request
    scheduler.add_request = lambda request: None if str(request.request_id).startswith("request 7") else add(request)


def budget_below_the_prompts(llm: Any) -> None:
    """What is left of the budget when somebody lowers it after the engine has tested it."""
    scheduler = of(llm, SCHEDULER)
    scheduler.max_num_scheduled_tokens = CHUNK
    of(llm, "llm_engine.vllm_config.scheduler_config").max_num_batched_tokens = CHUNK


def aborts_of_who_waits_ignored(llm: Any) -> None:
    """A request that waits cannot be aborted."""
    scheduler = of(llm, SCHEDULER)
    finish = scheduler.finish_requests

    def only_running(names: Any, status: Any) -> Any:
        known = {one.request_id for one in scheduler.running}
        return finish([one for one in ([names] if isinstance(names, str) else names or ()) if one in known], status)

    scheduler.finish_requests = only_running


def youngest_first(llm: Any) -> None:
    """Of the requests that wait the one that came last is begun."""
    queue = type(engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",)).waiting)
    queue.peek_request = lambda self: self[-1]
    queue.pop_request = deque.pop


def chunks_answer(llm: Any) -> None:
    """What follows a chunk in the middle of a prompt is taken for the answer's beginning."""
    runner = of(llm, f"{engine_facts.WORKERS[0]}.model_runner")
    prepare = runner._prepare_inputs

    def prepared(*given: Any, **named: Any) -> Any:
        out = prepare(*given, **named)
        count = runner.input_batch.num_reqs
        runner.discard_request_mask.np[:count] = False
        runner.discard_request_mask.copy_to_gpu(count)
        return out

    runner._prepare_inputs = prepared


def aborts_take_the_next_in_line(llm: Any) -> None:
    """An abort of a request that waits takes the one behind it."""
    scheduler = of(llm, SCHEDULER)
    finish = scheduler.finish_requests

    def finished(names: Any, status: Any) -> Any:
        waiting = [one.request_id for one in scheduler.waiting]
        behind = dict(pairwise(waiting))
        return finish([behind.get(one, one) for one in ([names] if isinstance(names, str) else names or ())], status)

    scheduler.finish_requests = finished
