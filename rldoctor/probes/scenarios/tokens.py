"""The ``tokens`` scenario: the chat template's round trip, and how the engine ends a completion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level

SECONDS = 120.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    plan = case.plan
    template = plan.value("model.chat_template") if plan is not None else None
    arguments = {
        # A path, or the name of a template of the framework's own, is none that can be rendered here.
        "template": template if isinstance(template, str) and "{" in template else None,
        "stop": plan.value("sampling.stop") if plan is not None else None,
        "stop_token_ids": plan.value("sampling.stop_token_ids") if plan is not None else None,
    }
    return {"tokens": Run(arguments=arguments, time_limit=SECONDS)}


tokens = Scenario(
    name="tokens",
    level=Level.ROLLOUT,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "tokens.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=1.0,
)
