"""The ``sampling`` scenario: tokens drawn at one place against the trainer's distribution there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level
from rldoctor.probes.scenarios.agreement import OTHER_TEMPERATURE

# With so many draws a temperature that is off by a few percent shows where the distribution is that of a real model.
DRAWS = 768
SECONDS = 180.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    planned = case.plan.value("sampling.temperature") if case.plan is not None else None
    other = float(planned) if isinstance(planned, int | float) and planned > 0 and planned != 1 else OTHER_TEMPERATURE
    return {"sampling": Run(arguments={"draws": DRAWS, "temperature": other}, time_limit=SECONDS)}


sampling = Scenario(
    name="sampling",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "sampling.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=6.0,
)
