"""What a framework asks Ray for, as the plan has it in ``ray.groups``."""

from __future__ import annotations

from typing import Any


def placement_group(strategy: str, bundles: int, gpus: float = 1, cpus: float = 1, count: int = 1) -> dict[str, Any]:
    """``count`` groups of ``bundles`` bundles, each of so many devices and cores (none where no launch tells them)."""
    each = {"GPU": gpus, "CPU": cpus} if cpus else {"GPU": gpus}
    return {"strategy": strategy, "bundles": bundles, "each": each, "count": count}


def driver(cpus: float = 1) -> dict[str, Any]:
    """The actor or task in which a framework's own loop runs; it has no group, and stays."""
    return {"strategy": "ACTOR", "bundles": 1, "each": {"CPU": cpus}, "count": 1}
