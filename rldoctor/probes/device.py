"""The device that live probes run on: one that is idle, and a small share of it."""

from __future__ import annotations

from rldoctor.case import Case, Gpu
from rldoctor.check import NotApplicable
from rldoctor.probe import Request

# What the engine of a miniature gets of a device: context, weights and a cache of some thousand tokens.
DEVICE_BYTES = 4 << 30


def choose_device(case: Case, request: Request) -> Gpu | None:
    """The NVIDIA device to run on: of those allowed the one with the least memory in use. None without one.

    Raises :class:`NotApplicable` for devices of a vendor whose vLLM is not probed."""
    gpus = case.gpus
    if gpus is None or not gpus.devices:
        return None
    if gpus.vendor != "nvidia":
        raise NotApplicable(f"the rollout probe does not run on {gpus.vendor} devices")
    allowed = request.devices
    if allowed is None:
        visible = (case.environment or {}).get("CUDA_VISIBLE_DEVICES", "")
        allowed = tuple(int(part) for part in visible.split(",") if part.strip().isdigit()) or None
    usable = [device for device in gpus.devices if allowed is None or device.index in allowed]
    if not usable:
        raise NotApplicable(f"no device among {allowed} exists")
    return min(usable, key=lambda device: (len(device.processes), device.memory_used or 0, device.index))


def share(device: Gpu) -> float:
    """The share of the device's memory that a miniature's engine needs."""
    return round(min(0.9, max(0.05, DEVICE_BYTES / device.memory_total)), 3)
