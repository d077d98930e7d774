"""How deep ``auto`` looks: as far as it disturbs nobody."""

from __future__ import annotations

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.model import Level
from rldoctor.records import dataclass

# A rollout in `auto` starts only where it disturbs nobody: a miniature on the CPU takes about 2 GiB and a core, on a
# GPU the CUDA context and the smallest cache.
IDLE_LOAD_PER_CPU = 0.5
IDLE_MEMORY = 4 * 1024**3
IDLE_GPU_MEMORY = 8 * 1024**3


@dataclass(frozen=True)
class Depth:
    """How deep to look, and why not deeper."""

    level: Level
    reason: str | None = None


def auto_depth(case: Case, request: Request) -> Depth:
    """The level that ``auto`` means here: ``imports``, and ``rollout`` where the device is idle."""
    if case.packages is None or find(case.packages, "vllm") is None:
        return Depth(Level.IMPORTS)  # that there is none is said elsewhere
    busy = _busy(case, request)
    if busy is None:
        return Depth(Level.ROLLOUT)
    return Depth(Level.IMPORTS, f"no rollout was run: {busy} (--level rollout runs one all the same)")


def _busy(case: Case, request: Request) -> str | None:
    """Why a rollout would disturb somebody or cannot be had, or None."""
    if case.host is None:
        return "how busy this machine is, is not known"
    from rldoctor.probes.feasible import choose_device, user

    try:
        device = choose_device(case, request)
    except NotApplicable as reason:
        return str(reason)
    if device is not None:
        if (who := user(device)) is not None:
            return f"GPU {device.index} is in use by {who}"
        free = device.memory_total - (device.memory_used or 0)
        return None if free >= IDLE_GPU_MEMORY else f"GPU {device.index} has only {free / 1024**3:.1f} GiB free"
    if case.host.load > IDLE_LOAD_PER_CPU * case.host.cpu_usable:
        return f"the CPUs are busy (load {case.host.load:.1f} on {case.host.cpu_usable:g})"
    free = min(case.host.memory_available, case.host.memory_limit or case.host.memory_available)
    if free < IDLE_MEMORY:
        return f"only {free / 1024**3:.1f} GiB of memory are available"
    return None
