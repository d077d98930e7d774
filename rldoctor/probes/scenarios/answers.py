"""The ``answers`` scenario: requests whose answer is known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level

SECONDS = 120.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    return {"answers": Run(time_limit=SECONDS)}


answers = Scenario(
    name="answers",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "answers.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=2.5,
    vocabulary_seconds=1.0,
)
