"""The probes: programs for the interpreter of the environment that is examined. They record and judge nothing."""

from __future__ import annotations

from pathlib import Path

from rldoctor.api import Case, Level, NotApplicable
from rldoctor.api.probes import Job, Probe, Request


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    folder = (case.environment or {}).get("ACME_SCRATCH")
    if folder is None:
        raise NotApplicable("ACME_SCRATCH is not set")
    return {"scratch": Job(arguments={"folder": folder}, time_limit=20.0)}


scratch = Probe(
    name="acme_scratch",
    level=Level.IMPORTS,
    child=Path(__file__).parent / "children" / "scratch.py",
    jobs=_jobs,
    needs=("environment",),
)
