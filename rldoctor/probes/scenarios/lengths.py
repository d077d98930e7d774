"""The ``lengths`` scenario: sequences that end exactly at the longest one, a prompt beyond it, and the trainer's model
at the same lengths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level

# Tokens that are generated up to the limit; as many have to fit after a short prompt.
TAIL = 16
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    tail = min(TAIL, max(basis.model_len // 4, 1))
    return {"lengths": Run(arguments={"tail": tail}, time_limit=SECONDS)}


lengths = Scenario(
    name="lengths",
    level=Level.ROLLOUT,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "lengths.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=0.5,
)
