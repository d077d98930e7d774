"""The ``trainer_code`` scenario: the function with which the launch's framework computes log-probabilities for its
loss, against transformers and the engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor import frameworks
from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan

# Enough for padding on both sides: prompts and completions of different lengths.
RESPONSE = 12
# The framework's trainer is imported and built, within the time of the run.
SECONDS, PROGRAM_SECONDS = 300.0, 240.0
CHILDREN = Path(__file__).parents[1] / "children"


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    plan = case.plan
    framework = frameworks.framework(plan.framework) if plan is not None else None
    if plan is None or framework is None or framework.asked_by is None:
        raise NotApplicable("no framework whose trainer can be asked alone")
    if request.model is not None:
        raise NotApplicable("a real model is not loaded a second time into a trainer")
    if case.packages is None or not any(find(case.packages, package.name) for package in framework.packages):
        raise NotApplicable(f"{framework.title} is not installed for this interpreter")
    planned = [plan.value(name) for name in ("trainer.temperature", "sampling.temperature")]
    temperature = next((float(value) for value in planned if isinstance(value, int | float) and value > 0), 1.0)
    arguments = {
        "trainer": framework.asked_by,
        "title": framework.title,
        "limit": PROGRAM_SECONDS,
        "temperature": temperature,
        "packing": _said(plan, "batch.packing"),
        "fused": _said(plan, "trainer.logits_chunked"),
        "prompt": min(basis.prompt, basis.model_len // 4),
        "response": min(RESPONSE, basis.model_len // 4),
    }
    return {"trainer_code": Run(arguments=arguments, time_limit=SECONDS)}


def _said(plan: RolloutPlan, name: str) -> bool | None:
    """What a launch says of a switch; None where it says nothing that is known."""
    value = plan.value(name)
    return value if isinstance(value, bool) else None


trainer_code = Scenario(
    name="trainer_code",
    level=Level.COMPARE,
    program=CHILDREN / "scenarios" / "trainer_code.py",
    runs=_runs,
    needs=("plan",),
    reads=("packages", "model"),
    seconds=20.0,
)
