"""The memory in use on a run's devices while it goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from rldoctor.case import Gpus, Unknown
from rldoctor.facts import gpus
from rldoctor.records import dataclass

GIB = 1 << 30
# Asking takes this share of one core at most.
SHARE = 0.002


@dataclass(frozen=True)
class Used:
    """Bytes in use on a device; ``total`` is None where it is not known."""

    index: int
    used: float
    total: float | None = None


def of_history(memory: Mapping[int, float]) -> tuple[Used, ...]:
    """What a tracker wrote of the run's devices, in bytes by their number."""
    return tuple(Used(index, memory[index]) for index in sorted(memory))


def line(found: tuple[Used, ...]) -> str:
    """The devices in one line; nothing where there are none."""
    if not found:
        return ""
    totals = {one.total for one in found}
    whole = totals.pop() if len(totals) == 1 else None
    each = (f"{one.used / GIB:.1f}" + (f"/{one.total / GIB:.0f}" if one.total and not whole else "") for one in found)
    return f"GPU memory {' '.join(each)}" + (f" of {whole / GIB:.0f}" if whole else "") + " GiB"


class Devices:
    """The devices of this machine, asked ever more seldom the longer an answer takes. ``clock`` counts seconds."""

    def __init__(
        self,
        read: Callable[[], Gpus | Unknown] = lambda: gpus.read(os.environ),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._clock = clock
        self._free = clock()
        self._latest: tuple[Used, ...] = ()

    def look(self) -> tuple[Used, ...]:
        """What they were last seen to have in use, without those that no process is on."""
        began = self._clock()
        if began < self._free:
            return self._latest
        found = self._read()
        ended = self._clock()
        self._free = ended + (ended - began) / SHARE
        devices = found.devices if isinstance(found, Gpus) else ()
        self._latest = tuple(
            Used(one.index, one.memory_used, one.memory_total)
            for one in devices
            if one.memory_used is not None and (one.processes or one.memory_used > GIB)
        )
        return self._latest
