"""Engines that draw the same for every seed, or something else for one seed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

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
        module.set_random_seed = lambda *_, seed=seed, **__: seed(0)


ignored.before_boot = True  # type: ignore[attr-defined]
