"""The ``rollout`` probe: a real, small rollout on the environment's own vLLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldoctor.case import Case, Gpu
from rldoctor.check import NotApplicable
from rldoctor.model import Level
from rldoctor.probe import Job, Probe, Request

SAMPLES = 8
PROMPT_TOKENS = 24
MAX_TOKENS = 16
SECONDS = 300.0
# What the engine of a miniature gets of a device: context, weights and a cache of some thousand tokens.
DEVICE_BYTES = 4 << 30

# One process, so that the child can look into the engine; a cache that a small machine can spare.
ENVIRON = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    _require_import(case)
    environ, engine = dict(ENVIRON), {}
    device = choose_device(case, request)
    if device is not None:
        environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(device.index))
        engine["gpu_memory_utilization"] = round(min(0.9, max(0.05, DEVICE_BYTES / device.memory_total)), 3)
    arguments: dict[str, Any] = {
        "engine": engine,
        "config": case.model.config if case.model else None,
        "files": case.model.path if case.model else None,
        "samples": SAMPLES,
        "prompt_tokens": PROMPT_TOKENS,
        "max_tokens": MAX_TOKENS,
    }
    return {"miniature": Job(arguments=arguments, environ=environ, time_limit=SECONDS)}


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


def _require_import(case: Case) -> None:
    jobs = case.observations.get("imports", {})
    packages = jobs.get("stack", {}).get("records", {}).get("packages", {})
    if packages.get("vllm", {}).get("ended", "done") != "done":
        raise NotApplicable("vllm cannot be imported here")


rollout = Probe(
    name="rollout",
    level=Level.ROLLOUT,
    child=Path(__file__).parent / "children" / "rollout.py",
    jobs=_jobs,
    needs=("packages.vllm",),
    reads=("host", "gpus", "model", "environment"),
    seconds=25.0,
)
