"""Engines that lose something with every round of traffic."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

from engine_facts import WORKERS, first

MIB = 1 << 20
MODELS = tuple(f"{worker}.model_runner.model" for worker in WORKERS)
POOL = "llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool"
# Requests of a round of the soak.
ROUND = 12
BREAKS_AFTER = 100
_kept: list[Any] = []


def leaks(llm: Any) -> None:
    """Everything at once, each a little with every round."""
    leaks_blocks(llm)
    _every_round(llm, _a_file, _a_socket, _a_thread, _a_process, _shared_memory, _five_mib)


def leaks_blocks(llm: Any) -> None:
    """Of the blocks that a round gives back, one stays away."""
    pool = first(llm, (POOL,))
    free, calls = pool.free_blocks, [0]

    def free_all_but_one(blocks: Any) -> None:
        calls[0] += 1
        given = list(blocks)
        free(given[1:] if calls[0] % ROUND == 0 else given)

    pool.free_blocks = free_all_but_one


def slower(llm: Any) -> None:
    """Each request makes all later steps a little longer."""
    step, add, waits = llm.llm_engine.step, llm.llm_engine.add_request, [0.0]

    def add_slower(*arguments: Any, **named: Any) -> Any:
        waits[0] += 0.0005
        return add(*arguments, **named)

    def step_slower() -> Any:
        time.sleep(waits[0])
        return step()

    llm.llm_engine.step, llm.llm_engine.add_request = step_slower, add_slower


def breaks(llm: Any) -> None:
    """An engine whose books are wrong after so many requests."""
    add, count = llm.llm_engine.add_request, [0]

    def add_or_break(*arguments: Any, **named: Any) -> Any:
        count[0] += 1
        if count[0] > BREAKS_AFTER:
            raise RuntimeError("the request table is full")
        return add(*arguments, **named)

    llm.llm_engine.add_request = add_or_break


def _every_round(llm: Any, *losses: Callable[[int], Any]) -> None:
    add, count = llm.llm_engine.add_request, [0]

    def add_and_lose(*arguments: Any, **named: Any) -> Any:
        count[0] += 1
        if count[0] % ROUND == 0:
            _kept.extend(loss(count[0]) for loss in losses)
        return add(*arguments, **named)

    llm.llm_engine.add_request = add_and_lose


def _a_file(_: int) -> Any:
    return Path(os.devnull).open()


def _a_socket(_: int) -> Any:
    return socket.socket()


def _a_thread(_: int) -> Any:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    return thread


def _a_process(_: int) -> Any:
    return subprocess.Popen(["sleep", "600"])


def _shared_memory(_: int) -> Any:
    """The resource tracker removes it when the engine has ended."""
    return SharedMemory(create=True, size=1)


def _five_mib(_: int) -> bytes:
    return os.urandom(5 * MIB)


def loses_a_file_at_times(llm: Any) -> None:
    """One file stays open for every fifth round."""
    _every_round(llm, lambda count: _a_file(count) if count // ROUND % 5 == 0 else None)


def loses_a_block_at_times(llm: Any) -> None:
    """One block stays away for every fourth round."""
    pool = first(llm, (POOL,))
    free, calls = pool.free_blocks, [0]

    def free_all_but_one(blocks: Any) -> None:
        calls[0] += 1
        given = list(blocks)
        free(given[1:] if calls[0] % (4 * ROUND) == 0 else given)

    pool.free_blocks = free_all_but_one


def loses_a_thread_at_times(llm: Any) -> None:
    """One thread goes on for every third round."""
    _every_round(llm, lambda count: _a_thread(count) if count // ROUND % 3 == 0 else None)


def keeps_what_was_aborted(llm: Any) -> None:
    """What an aborted request held is not given back."""
    scheduler = first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    free = scheduler._free_blocks

    def kept(request: Any) -> None:
        if request.status.name != "FINISHED_ABORTED":
            free(request)

    scheduler._free_blocks = kept


def drifts(llm: Any) -> None:
    """From the hundredth request on the rotary table turns a little further with every round."""
    tables = {
        id(one.cos_sin_cache): one.cos_sin_cache
        for one in first(llm, MODELS).modules()
        if hasattr(one, "cos_sin_cache")
    }

    def turn(count: int) -> None:
        for table in tables.values() if count > BREAKS_AFTER else ():
            table.mul_(0.998)

    _every_round(llm, turn)


def stands_still(llm: Any) -> None:
    """After a hundred requests a step never ends."""
    step, add, count = llm.llm_engine.step, llm.llm_engine.add_request, [0]

    def add_counted(*arguments: Any, **named: Any) -> Any:
        count[0] += 1
        return add(*arguments, **named)

    def step_or_wait() -> Any:
        if count[0] > BREAKS_AFTER:
            threading.Event().wait()
        return step()

    llm.llm_engine.step, llm.llm_engine.add_request = step_or_wait, add_counted


def updates_leave_memory(llm: Any) -> None:
    """Each update leaves eight MiB behind."""
    call = llm.collective_rpc

    def leaving(*given: Any, **named: Any) -> Any:
        _kept.append(os.urandom(8 * MIB))
        return call(*given, **named)

    llm.collective_rpc = leaving


def fifth_update_fails(llm: Any) -> None:
    """The fifth update raises."""
    call, count = llm.collective_rpc, [0]

    def failing(*given: Any, **named: Any) -> Any:
        count[0] += 1
        if count[0] == 5:
            raise RuntimeError("the update group is closed")
        return call(*given, **named)

    llm.collective_rpc = failing


def _after_so_many(llm: Any, change: Callable[[Any, Callable[[], bool]], None]) -> None:
    """``change(engine, late)`` breaks the engine; ``late()`` says whether a hundred requests have been added."""
    engine = llm.llm_engine
    add, count = engine.add_request, [0]

    def counted(*given: Any, **named: Any) -> Any:
        count[0] += 1
        return add(*given, **named)

    engine.add_request = counted
    change(engine, lambda: count[0] > BREAKS_AFTER)


def _stepped_otherwise(llm: Any, change: Callable[[list[Any]], list[Any]]) -> None:
    """``change(outputs)`` of every step after a hundred requests."""

    def changed(engine: Any, late: Callable[[], bool]) -> None:
        step = engine.step
        engine.step = lambda: change(step()) if late() else step()

    _after_so_many(llm, changed)


def swaps_answers(llm: Any) -> None:
    """After a hundred requests those that are answered in one step get each other's answers."""

    def swapped(outputs: list[Any]) -> list[Any]:
        for one, other in zip(outputs[::2], outputs[1::2], strict=False):
            one.outputs, other.outputs = other.outputs, one.outputs
        return outputs

    _stepped_otherwise(llm, swapped)


def draws_alike(llm: Any) -> None:
    """After a hundred requests every step draws with the same random numbers."""
    import torch

    def changed(engine: Any, late: Callable[[], bool]) -> None:
        step = engine.step

        def again() -> Any:
            if late():
                torch.manual_seed(0)
            return step()

        engine.step = again

    _after_so_many(llm, changed)


def tells_no_logprobs(llm: Any) -> None:
    """After a hundred requests no log-probabilities come with answers."""

    def silent(outputs: list[Any]) -> list[Any]:
        for output in outputs:
            for completion in output.outputs:
                completion.logprobs = None
        return outputs

    _stepped_otherwise(llm, silent)


def aborts_no_more(llm: Any) -> None:
    """After a hundred requests none is aborted any more."""

    def changed(engine: Any, late: Callable[[], bool]) -> None:
        abort = engine.abort_request
        engine.abort_request = lambda *given, **named: None if late() else abort(*given, **named)

    _after_so_many(llm, changed)


def ends_a_token_early(llm: Any) -> None:
    """After a hundred requests answers are a token shorter than they were asked to be."""

    def changed(engine: Any, late: Callable[[], bool]) -> None:
        from vllm.v1.core.sched import scheduler

        check = scheduler.check_stop

        def short(request: Any, longest: int) -> bool:
            asked = request.max_tokens
            request.max_tokens = max(asked - 1, 1) if late() else asked
            try:
                return bool(check(request, longest))
            finally:
                request.max_tokens = asked

        scheduler.check_stop = short

    _after_so_many(llm, changed)


def seeds_no_more(llm: Any) -> None:
    """After a hundred requests a seed has no effect."""

    def changed(engine: Any, late: Callable[[], bool]) -> None:
        core = engine.engine_core
        add = core.add_request

        def unseeded(request: Any) -> Any:
            if late():
                request.sampling_params.seed = None
            return add(request)

        core.add_request = unseeded

    _after_so_many(llm, changed)


def tells_rounded_logprobs(llm: Any) -> None:
    """After a hundred requests log-probabilities are rounded."""

    def rounded(outputs: list[Any]) -> list[Any]:
        for completion in [one for output in outputs for one in output.outputs]:
            for place in completion.logprobs or ():
                for entry in place.values():
                    entry.logprob = round(entry.logprob, 2)
        return outputs

    _stepped_otherwise(llm, rounded)


def stops_no_more(llm: Any) -> None:
    """After a hundred requests stop tokens have no effect."""

    def changed(engine: Any, late: Any) -> None:
        from vllm.v1.core.sched import scheduler

        check = scheduler.check_stop

        def other(request: Any, longest: int) -> bool:
            asked = request.sampling_params
            if not late():
                return bool(check(request, longest))
            before, end = asked.stop_token_ids, asked._eos_token_id
            asked.stop_token_ids, asked._eos_token_id = [], None
            try:
                return bool(check(request, longest))
            finally:
                asked.stop_token_ids, asked._eos_token_id = before, end

        scheduler.check_stop = other

    _after_so_many(llm, changed)


def last_token_is_the_one_before(llm: Any) -> None:
    """After a hundred requests the last token of an answer is told as the one before it."""

    def changed(outputs: Any) -> Any:
        for output in outputs:
            for completion in getattr(output, "outputs", []):
                tokens = list(completion.token_ids)
                if output.finished and len(tokens) > 1:
                    completion.token_ids = [*tokens[:-1], tokens[-2]]
        return outputs

    _stepped_otherwise(llm, changed)
