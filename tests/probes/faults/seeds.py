"""Engines that draw the same for every seed, or something else for one seed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import running_engine

WORKERS = ("vllm.v1.worker.cpu_worker", "vllm.v1.worker.gpu_worker", "vllm.worker.cpu_worker", "vllm.worker.worker")


def seeding() -> Iterator[Any]:
    """Every module of a worker that seeds its process."""
    for name in WORKERS:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # of the other device, or of another release
        if hasattr(module, "set_random_seed"):
            yield module


def ignored() -> None:
    """The engine's own seed has no effect."""
    for module in seeding():
        seed = module.set_random_seed
        module.set_random_seed = partial(_always_zero, seed)


def _always_zero(seed: Any, *_: Any, **__: Any) -> None:
    seed(0)


ignored.before_boot = True  # type: ignore[attr-defined]


def one_for_all(llm: Any) -> None:
    """Whatever seed a request has, the engine takes another."""
    generate = running_engine.RunningEngine.generate

    def reported(self: Any, asked: Any) -> list[dict[str, Any]]:
        changed = {name: (prompt, {**given, **_one(given)}) for name, (prompt, given) in asked.items()}
        rows = generate(self, changed)
        return [{**row, "seed": asked[row["request"]][1].get("seed")} for row in rows]

    setattr(running_engine.RunningEngine, "generate", reported)  # noqa: B010 - mypy takes a method for a constant


def _one(given: Any) -> dict[str, int]:
    return {"seed": 7} if "seed" in given else {}
