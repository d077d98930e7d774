"""The ``soak`` scenario: the launch's traffic kept up for minutes, to see what grows, slows down, stalls or drifts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level

# Beyond the minutes asked for: the round that is under way when they are over.
LAST_ROUND = 120.0
WINDOWS = 12


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    if request.soak is None:
        raise NotApplicable("no --soak MINUTES was asked for")
    room = basis.model_len - 2
    response = min(basis.response, room // 2)
    seconds = request.soak * 60
    arguments = {
        "prompt": min(basis.prompt, room - response),
        "response": response,
        "seconds": seconds,
        "windows": WINDOWS,
    }
    return {"traffic": Run(arguments=arguments, time_limit=seconds + LAST_ROUND)}


soak = Scenario(
    name="soak",
    level=Level.ROLLOUT,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "soak.py",
    runs=_runs,
    disturbs=True,
)
