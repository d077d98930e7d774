"""The ``requests`` scenario: many callers of one asynchronous engine, some of whom abort, cancel or use an id twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.knowledge.sharing import one_engine_in_the_trainer
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan

# What is mixed up is mixed up in short answers, too.
LONGEST_PROMPT = 192
LONGEST_RESPONSE = 12
SILENCE = 5.0
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    if case.plan is not None:
        _require_asynchronous(case, case.plan)
    longest = basis.model_len - 1
    response = min(basis.response, LONGEST_RESPONSE, longest // 4)
    arguments = {
        "prompt": min(basis.prompt, LONGEST_PROMPT, longest // 2),
        "response": response,
        "longest": longest,
        "silence": SILENCE,
    }
    return {"callers": Run(engine=Engine(kind="async"), arguments=arguments, time_limit=SECONDS)}


def _require_asynchronous(case: Case, plan: RolloutPlan) -> None:
    if plan.value("rollout.backend", "vllm") != "vllm":
        return  # judged on vLLM's own defaults, as every launch for another engine is
    asynchronous = plan.value("rollout.async_engine")
    served = plan.role == "server" or plan.value("placement.mode") in ("server", "async")
    synchronous = asynchronous is False or one_engine_in_the_trainer(case)
    if synchronous or not (asynchronous or served or plan.value("rollout.async")):
        raise NotApplicable(f"{plan.framework} drives vllm.LLM here, one batch at a time")


requests = Scenario(
    name="requests",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "callers.py",
    runs=_runs,
    reads=("plan",),
    seconds=5.0,
    disturbs=True,
)
