"""The ``ray_lookup`` probe: whether a process that joins Ray as the engine's does finds the trainer's actors."""

from __future__ import annotations

from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.model import Level
from rldoctor.probes.feasible import require_import

ACTORS = 2
# A Ray starts in 5 s, on a busy machine in 30; one look-up starts another.
LOOK_SECONDS = 90.0
SECONDS = 300.0


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    require_import(case, "ray")
    if case.plan is None or not case.plan.value("ray.engine_joins"):
        raise NotApplicable("no engine of this launch joins Ray by itself")
    return {"actors": Job(arguments={"actors": ACTORS, "seconds": LOOK_SECONDS}, time_limit=SECONDS)}


ray_lookup = Probe(
    name="ray_lookup",
    level=Level.DEVICES,
    child=Path(__file__).parent / "children" / "ray_lookup.py",
    jobs=_jobs,
    needs=("packages.ray",),
    reads=("plan",),
    seconds=20.0,
)
