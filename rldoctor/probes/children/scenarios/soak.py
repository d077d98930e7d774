"""A life in small: cycles of traffic with aborts, new weights, another adapter, sleep and wake-up, with the engine's
measure taken at regular times.

Arguments: ``prompt`` and ``response`` (tokens, the longest of each), ``seconds``, ``windows`` (measures to take),
``update`` (whether weights are sent), ``adapter`` (``rank`` and ``alpha``, or None), ``sleep`` (a level, or None).
Records: ``played`` (``cycles`` and ``requests`` so far, ``parts`` of a cycle), ``windows``, a row for each: ``seconds``
since the start, ``cycles`` so far, what is ``held`` (see there; ``shared`` are files in ``/dev/shm``), ``device``
memory in bytes (None without a device), ``free_blocks`` of the KV cache while nothing runs (None where the engine does
not tell), ``requests`` played, of them ``aborted`` and ``unfinished``, ``tokens`` sampled in it, ``step`` (the time of
its quicker steps in seconds) and ``longest_step``, ``fixed`` (see :func:`_fixed`, after this window); ``first`` (the
same after the first cycle), ``unread`` (parts of a cycle that could not be played, and why), ``reach``."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import held
from running_engine import RunningEngine
from syncing import Sync, SyncError
from traffic import Arrival, Trace, drive
from trainer import Trainer, TrainerError

ROUND = 12
# Of these lengths, one of the longest: another would be done before it is aborted.
LENGTHS, ABORTED = 3, 9
SPACING = 2
# Requests that are the same every time, of different lengths, so that some end while others go on.
FIXED_PROMPT, FIXED_TOKENS, FIXED_ABORTED = 24, 16, 4
FIXED: dict[str, dict[str, Any]] = {
    "greedy 1": {"temperature": 0.0, "max_tokens": FIXED_TOKENS},
    "greedy 2": {"temperature": 0.0, "max_tokens": FIXED_TOKENS - 3},
    "greedy 3": {"temperature": 0.0, "max_tokens": FIXED_TOKENS - 6},
    "seeded": {"seed": 11},
    # Nothing but the token that stops it.
    "stopped": {"temperature": 0.0, "allowed_token_ids": [5], "stop_token_ids": [5]},
    "aborted": {"temperature": 0.0},
    "drawn 1": {},
    "drawn 2": {},
}
# A tenth of the steps is quicker than what stands for all of them: what others do on the machine slows down the rest.
QUICK = 0.1
Part = Callable[[int], None]


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    began, life = time.monotonic(), _Life(running, arguments)
    due = [arguments["seconds"] * (i + 1) / arguments["windows"] for i in range(arguments["windows"])]
    windows: list[dict[str, Any]] = []
    traces = [life.cycle()]
    running.record("first", _fixed(running))
    while due:
        while not traces or time.monotonic() - began < due[0]:
            traces.append(life.cycle())
        due = [moment for moment in due if moment > time.monotonic() - began]
        windows.append(life.window(traces, time.monotonic() - began))
        traces = []
        running.record("windows", windows)
        running.record(
            "reach",
            {
                "requests": life.requests,
                "cycles": life.cycles,
                "sampled_tokens": sum(window["tokens"] for window in windows),
                "longest": arguments["prompt"] + arguments["response"],
                "seconds": round(time.monotonic() - began, 1),
            },
        )


class _Life:
    """An engine with what its trainer would do to it."""

    def __init__(self, running: RunningEngine, arguments: dict[str, Any]) -> None:
        self.running, self.arguments = running, arguments
        self.cycles = self.requests = 0
        self.steps: list[float] = []
        self.shared_memory = held.SharedMemory()
        unread: dict[str, str] = {}
        self.parts: dict[str, Part] = {}
        for name, prepare in (("update", _update), ("adapter", _adapter), ("sleep", _sleep)):
            if arguments.get(name):
                try:
                    self.parts[name] = prepare(running, arguments[name])
                except (TrainerError, SyncError) as why:
                    unread[name] = str(why)
        running.record("unread", unread)
        self._time_steps()

    def cycle(self) -> Trace:
        arrivals = [_arrival(self.running, self.requests + i, i, self.arguments) for i in range(ROUND)]
        trace = drive(self.running, arrivals)
        for part in self.parts.values():
            part(self.cycles)
        self.shared_memory.look()
        self.cycles += 1
        self.requests += ROUND
        self.running.record(
            "played", {"cycles": self.cycles, "requests": self.requests, "parts": ["traffic", *self.parts]}
        )
        return trace

    def window(self, traces: list[Trace], seconds: float) -> dict[str, Any]:
        answers = [answer for trace in traces for answer in trace.answers.values()]
        fixed = _fixed(self.running)
        held.settle()
        steps, self.steps = sorted(self.steps), []
        return {
            "seconds": round(seconds, 1),
            "cycles": self.cycles,
            **held.held(),
            "shared": self.shared_memory.look(),
            "device": _device_memory(),
            "free_blocks": self.running.free_blocks,
            "requests": len(answers),
            "aborted": sum(answer["aborted"] for answer in answers),
            "unfinished": sum(not (answer["finish_reason"] or answer["aborted"]) for answer in answers),
            "tokens": sum(len(answer["token_ids"]) for answer in answers),
            "step": round(steps[int(len(steps) * QUICK)], 6) if steps else None,
            "longest_step": max(trace.longest_step for trace in traces),
            "fixed": fixed,
        }

    def _time_steps(self) -> None:
        engine = self.running.engine.llm_engine
        step = engine.step

        def timed() -> Any:
            began = time.perf_counter()
            outputs = step()
            self.steps.append(time.perf_counter() - began)
            return outputs

        engine.step = timed


def _arrival(running: RunningEngine, name: int, place: int, arguments: dict[str, Any]) -> Arrival:
    prompt, response = arguments["prompt"], arguments["response"]
    tokens = max(1, response - (place % LENGTHS) * response // LENGTHS)
    # New prompts all the time, so that the prefix cache turns over, of lengths from a quarter of the longest.
    return Arrival(
        name=f"request {name}",
        prompt=running.prompt(max(16, prompt - (place % 4) * prompt // 4), salt=name + 1),
        parameters={"temperature": 1.0, "max_tokens": tokens, "logprobs": 1},
        at=place * SPACING,
        abort_after=max(1, response // 2) if place == ABORTED else None,
    )


def _fixed(running: RunningEngine) -> dict[str, Any]:
    """The requests that are the same every time, in the same steps, with nothing in the prefix cache: a
    :class:`traffic.Trace`. What was drawn has no seed and one prompt for all."""
    running.engine.reset_prefix_cache()
    usual = {"temperature": 1.0, "max_tokens": FIXED_TOKENS, "logprobs": 1, "ignore_eos": True}
    arrivals = [
        Arrival(
            name=name,
            prompt=running.prompt(FIXED_PROMPT, salt=0 if name.startswith("drawn") else place),
            parameters={**usual, **asked},
            at=place,
            abort_after=FIXED_ABORTED if name == "aborted" else None,
        )
        for place, (name, asked) in enumerate(FIXED.items())
        if running.steerable or "allowed_token_ids" not in asked
    ]
    return drive(running, arrivals).plain()


def _update(running: RunningEngine, _: Any) -> Part:
    """The weights that it has, sent as new ones. Raises :class:`TrainerError` and :class:`SyncError`."""
    sync, weights = Sync(running, one_by_one=False), Trainer(running).weights()

    def update(_: int) -> None:
        sync.send(weights.items())
        running.engine.reset_prefix_cache()

    return update


def _adapter(running: RunningEngine, wanted: dict[str, Any]) -> Part:
    """Another adapter each time, under a new number, as trainers give them. Raises :class:`TrainerError`."""
    lora: Any = importlib.import_module("lora")  # beside this file
    trainer = Trainer(running)
    base, modules = trainer.weights(), lora.modules_of(trainer, wanted["targets"])
    rank, alpha = wanted["rank"], wanted["alpha"]
    made = [lora.make_adapter(base, modules, rank, lora.STRENGTH, seed=seed) for seed in (1, 2)]
    folders = [lora.write_adapter(Path(f"soak-{i}"), one, rank, alpha) for i, one in enumerate(made)]

    def swap(cycle: int) -> None:
        engine = running.engine.llm_engine
        if cycle:
            engine.remove_lora(cycle)
        engine.add_lora(lora.lora_request(f"soak {cycle}", cycle + 1, folders[cycle % 2]))

    return swap


def _sleep(running: RunningEngine, level: int) -> Part:
    def nap(_: int) -> None:
        running.engine.sleep(level=level)
        running.engine.wake_up()

    return nap


def _device_memory() -> int | None:
    import torch

    if not torch.cuda.is_available():
        return None
    free, total = torch.cuda.mem_get_info()
    return int(total - free)
