"""How busy the devices are while a run stands: a rank that waits inside a collective keeps its device at 100 percent
and nearly at rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rldoctor.case import Gpus
from rldoctor.facts.deadline import within
from rldoctor.hang.model import GpuUse

TIME_LIMIT = 20.0


def use(gpus: Gpus, pids: set[int], host: str) -> tuple[GpuUse, ...]:
    """The devices with what they do now; empty where there is none or the driver does not answer in time."""
    if not gpus.devices:
        return ()
    try:
        doing = within(TIME_LIMIT, _now)
    except TimeoutError:
        return ()
    return tuple(
        GpuUse(
            index=device.index,
            name=device.name,
            host=host,
            busy=doing.get(device.index, (None, None, None))[0],
            power=doing.get(device.index, (None, None, None))[1],
            limit=doing.get(device.index, (None, None, None))[2],
            memory_used=device.memory_used,
            memory_total=device.memory_total,
            pids=tuple(sorted(p.pid for p in device.processes if p.pid in pids)),
        )
        for device in gpus.devices
    )


def _now() -> dict[int, tuple[int | None, float | None, float | None]]:
    """Index -> percent of the last second in which a kernel ran, watts drawn, watts allowed."""
    import pynvml

    def ask(function: Callable[..., Any], *arguments: object) -> Any:
        try:
            return function(*arguments)
        except pynvml.NVMLError:
            return None

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        found = {}
        for index in range(ask(pynvml.nvmlDeviceGetCount) or 0):
            handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            rates = ask(pynvml.nvmlDeviceGetUtilizationRates, handle) if handle is not None else None
            power, limit = (
                ask(f, handle) if handle is not None else None
                for f in (pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetEnforcedPowerLimit)
            )
            found[index] = (
                rates.gpu if rates is not None else None,
                power / 1000 if power is not None else None,
                limit / 1000 if limit is not None else None,
            )
        return found
    finally:
        ask(pynvml.nvmlShutdown)
