"""Keeps traffic up for a while and takes the engine's measure at regular times.

Arguments: ``prompt`` and ``response`` (tokens, the longest of each), ``seconds``, ``windows`` (measures to take).
Records: ``windows``, a row for each: ``seconds`` since the start, ``host`` and ``device`` memory in bytes (None without
a device), ``free_blocks`` of the KV cache while nothing runs (None where the engine does not tell), ``requests``
finished and ``unfinished``, ``tokens`` sampled in it, ``longest_step`` in seconds, ``canary`` (one greedy request:
``token_ids``, ``logprobs``); ``reach``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from engine_facts import first
from running_engine import RunningEngine
from traffic import Arrival, Trace, drive

ROUND = 12
SPACING = 2
CANARY = {"temperature": 0.0, "max_tokens": 16, "logprobs": 1, "ignore_eos": True}
# Where the number of free blocks stands, V1 and V0.
POOLS = ("llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool",)


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    began, number = time.monotonic(), 0
    due = [arguments["seconds"] * (i + 1) / arguments["windows"] for i in range(arguments["windows"])]
    windows: list[dict[str, Any]] = []
    while due:
        traces: list[Trace] = []
        while not traces or time.monotonic() - began < due[0]:
            traces.append(drive(running, [_arrival(running, number * ROUND + i, i, arguments) for i in range(ROUND)]))
            number += 1
        due = [moment for moment in due if moment > time.monotonic() - began]
        windows.append(_window(running, traces, time.monotonic() - began))
        running.record("windows", windows)
        running.record(
            "reach",
            {
                "requests": number * ROUND,
                "sampled_tokens": sum(window["tokens"] for window in windows),
                "longest": arguments["prompt"] + arguments["response"],
                "seconds": round(time.monotonic() - began, 1),
            },
        )


def _arrival(running: RunningEngine, name: int, place: int, arguments: dict[str, Any]) -> Arrival:
    prompt, response = arguments["prompt"], arguments["response"]
    # New prompts all the time, so that the prefix cache turns over, of lengths from a quarter of the longest.
    return Arrival(
        name=f"request {name}",
        prompt=running.prompt(max(16, prompt - (place % 4) * prompt // 4), salt=name + 1),
        parameters={"temperature": 1.0, "max_tokens": max(1, response - (place % 3) * response // 3), "logprobs": 1},
        at=place * SPACING,
        abort_after=max(1, response // 2) if place == ROUND - 1 else None,
    )


def _window(running: RunningEngine, traces: list[Trace], seconds: float) -> dict[str, Any]:
    answers = [answer for trace in traces for answer in trace.answers.values()]
    pool = first(running.engine, POOLS)
    count = getattr(pool, "get_num_free_blocks", None)
    (canary,) = running.generate({"canary": (running.prompt(32), CANARY)})
    return {
        "seconds": round(seconds, 1),
        "host": _host_memory(),
        "device": _device_memory(),
        "free_blocks": None if count is None else int(count()),
        "requests": len(answers),
        "unfinished": sum(not (answer["finish_reason"] or answer["aborted"]) for answer in answers),
        "tokens": sum(len(answer["token_ids"]) for answer in answers),
        "longest_step": max(trace.longest_step for trace in traces),
        "canary": {name: canary[name] for name in ("token_ids", "logprobs")},
    }


def _host_memory() -> int:
    """Resident memory of this process and its children, in bytes."""
    pages = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == os.getpgrp():  # the child's whole tree is one process group
            pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _device_memory() -> int | None:
    import torch

    if not torch.cuda.is_available():
        return None
    free, total = torch.cuda.mem_get_info()
    return int(total - free)
