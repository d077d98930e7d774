"""The ``placement`` probe: a forward pass of the trainer's model, small, on devices that are pretended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.model import Level
from rldoctor.probes.feasible import VISIBLE, require_import

# Without a launch only what every launch does; which of the others a launch brings about is for the checks to say.
ALWAYS = ("one device",)
SEVERAL = ("second device", "data parallel", "device map")
ROWS = 2
TOKENS = 16
SECONDS = 120.0


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    for package in ("torch", "transformers"):
        require_import(case, package)
    arguments: dict[str, Any] = {
        "config": case.model.config if case.model else None,
        "files": str(Path(case.model.path).absolute()) if case.model and case.model.files else None,
        "placements": [*ALWAYS, *(SEVERAL if case.plan is not None else ())],
        "rows": ROWS,
        "tokens": TOKENS,
    }
    # The devices are pretended; a real one is not touched.
    return {"forward": Job(arguments=arguments, environ={VISIBLE: ""}, time_limit=SECONDS)}


placement = Probe(
    name="placement",
    level=Level.DEVICES,
    child=Path(__file__).parent / "children" / "placement.py",
    jobs=_jobs,
    needs=("packages.torch", "packages.transformers"),
    reads=("model", "plan"),
    seconds=10.0,
)
