"""Where a probe may run and what it is worth running for: packages that load, devices that are free, planned ranks."""

from __future__ import annotations

from rldoctor.case import Case, Gpu
from rldoctor.check import NotApplicable
from rldoctor.launch.plan import RolloutPlan
from rldoctor.probe import Request

VISIBLE = "CUDA_VISIBLE_DEVICES"


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
    return [gpu for gpu in gpus.devices if not gpu.processes and not gpu.mig and (visible is None or visible(gpu))]


def planned_ranks(plan: RolloutPlan) -> int | None:
    """How many processes of a launch meet in one group, trainers or parallel engine workers; None where not known."""
    nodes = plan.value("process.nnodes", 1)
    each = plan.value("process.nproc")
    engine = 1
    for part in ("tensor", "pipeline", "data"):
        engine *= int(plan.value(f"engine.{part}_parallel_size", 1))
    named = (plan.value(name) for name in ("process.total", "placement.trainer_gpus", "placement.engine_gpus"))
    known = [int(count) for count in (*named, None if each is None else each * nodes) if count is not None]
    if not known and engine == 1:
        return None
    return max([engine, *known])


class _Visible:
    """The entries of CUDA_VISIBLE_DEVICES, numbers or the beginnings of UUIDs."""

    def __init__(self, text: str) -> None:
        self.entries = [entry.strip() for entry in text.split(",") if entry.strip()]

    def __call__(self, gpu: Gpu) -> bool:
        uuid = gpu.uuid or ""
        return any(entry == str(gpu.index) or (len(entry) > 3 and uuid.startswith(entry)) for entry in self.entries)


def _visible(case: Case) -> _Visible | None:
    planned = case.plan.value(f"env.{VISIBLE}") if case.plan is not None else None
    text = planned if isinstance(planned, str) else (case.environment or {}).get(VISIBLE)
    return None if text is None else _Visible(text)
