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

from engine_facts import first

MIB = 1 << 20
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
