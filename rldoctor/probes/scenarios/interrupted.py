"""The ``interrupted`` scenario: an engine that is used again after a caller was interrupted amid a batch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level

PROMPT, RESPONSE = 24, 8
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    length = {"prompt": min(PROMPT, basis.model_len // 2), "response": min(RESPONSE, basis.model_len // 4)}
    return {"again": Run(arguments=length, time_limit=SECONDS)}


interrupted = Scenario(
    name="interrupted",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "interruptions.py",
    runs=_runs,
    seconds=2.0,
    disturbs=True,
)
