"""The ``lora`` scenario: adapters on an engine that serves them, of the rank that the launch trains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan
from rldoctor.probes.counts import count

RESPONSE = 8
# PEFT's and vLLM's own defaults.
RANK, LIMIT = 8, 16
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    if case.plan is None or not serves_adapters(case.plan):
        raise NotApplicable("no launch gives adapters to the engine")
    given = lora_of(case.plan)
    arguments = {**given, "response": RESPONSE}
    return {"lora": Run(engine=Engine(options=engine_of(given)), arguments=arguments, time_limit=SECONDS)}


def serves_adapters(plan: RolloutPlan) -> bool:
    """Whether the engine gets the trainer's adapters as such."""
    return plan.value("engine.enable_lora") is True and plan.value("lora.merged") is not True


def lora_of(plan: RolloutPlan) -> dict[str, Any]:
    """The adapters that the launch trains: ``rank``, ``alpha``, ``targets``; the engine's ``limit`` of ranks, and how
    many a ``batch`` may have."""
    limit = count(plan, "engine.max_lora_rank") or LIMIT
    rank = min(count(plan, "lora.rank") or RANK, limit)
    alpha, targets = plan.value("lora.alpha"), plan.value("lora.target_modules")
    return {
        "rank": rank,
        # With a scale of 1 an engine that leaves it out would not be seen.
        "alpha": alpha if isinstance(alpha, int | float) and alpha > 0 and alpha != rank else 2 * rank,
        "targets": targets if isinstance(targets, list) else None,
        "limit": limit,
        "batch": count(plan, "engine.max_loras") or 1,
    }


def engine_of(adapter: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's options for such adapters."""
    return {"enable_lora": True, "max_lora_rank": adapter["limit"], "max_loras": adapter["batch"]}


lora = Scenario(
    name="lora",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "lora.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=4.0,
    disturbs=True,
)
