"""The ``rollout`` scenario: what every engine that is booted shows by itself, and that one is booted at all."""

from __future__ import annotations

from collections.abc import Mapping

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import MINIATURE, Basis, Run, Scenario
from rldoctor.model import Level


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    return {MINIATURE: Run()}


rollout = Scenario(
    name="rollout",
    level=Level.ROLLOUT,
    runs=_runs,
    needs=("packages.vllm",),
    reads=("host", "gpus", "model", "environment", "plan"),
    seconds=1.0,
)
