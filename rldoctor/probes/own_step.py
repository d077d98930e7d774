"""The ``own_step`` probe: a function that the user names, run as ranks of a launch on devices that are pretended."""

from __future__ import annotations

from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.model import Level
from rldoctor.probes.feasible import VISIBLE, planned_ranks, require_import

DEVICES = 8
SECONDS = 300.0
# Their processes see all devices of the node; a worker of any other launcher sees one, which is the first for it.
ALL_DEVICES = ("none", "torchrun", "accelerate", "deepspeed", "srun", "mpirun")


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    if request.step is None:
        raise NotApplicable("no --step FILE:FUNCTION was asked for")
    require_import(case, "torch")
    file, function = request.step
    plan = case.plan
    alone = plan is not None and plan.value("process.launcher", "none") not in ALL_DEVICES
    ranks = (planned_ranks(plan) if plan is not None else None) or DEVICES
    devices = 1 if alone else DEVICES
    arguments = {"file": str(file), "function": function, "ranks": ranks, "devices": devices}
    # The second rank shows what the first hides: a number in the code is right there.
    played = range(min(2, ranks, devices))
    return {
        f"rank {rank}": Job(arguments={**arguments, "rank": rank}, environ={VISIBLE: ""}, time_limit=SECONDS)
        for rank in played
    }


own_step = Probe(
    name="own_step",
    level=Level.DEVICES,
    child=Path(__file__).parent / "children" / "own_step.py",
    jobs=_jobs,
    needs=("packages.torch",),
    reads=("plan",),
    seconds=15.0,
)
