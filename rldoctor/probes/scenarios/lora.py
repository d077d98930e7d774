"""The ``lora`` scenario: adapters on an engine that serves them, of the rank that the launch trains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.model import Level
from rldoctor.probes.counts import count

RESPONSE = 8
# PEFT's and vLLM's own defaults.
RANK, LIMIT = 8, 16
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    plan = case.plan
    if plan is None or plan.value("engine.enable_lora") is not True or plan.value("lora.merged") is True:
        raise NotApplicable("no launch gives adapters to the engine")
    limit = count(plan, "engine.max_lora_rank") or LIMIT
    rank = min(count(plan, "lora.rank") or RANK, limit)
    alpha, targets = plan.value("lora.alpha"), plan.value("lora.target_modules")
    arguments = {
        "rank": rank,
        # With a scale of 1 an engine that leaves it out would not be seen.
        "alpha": alpha if isinstance(alpha, int | float) and alpha > 0 and alpha != rank else 2 * rank,
        "targets": targets if isinstance(targets, list) else None,
        "limit": limit,
        "response": RESPONSE,
    }
    engine = Engine(options={"enable_lora": True, "max_lora_rank": limit, "max_loras": 1})
    return {"lora": Run(engine=engine, arguments=arguments, time_limit=SECONDS)}


lora = Scenario(
    name="lora",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "lora.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=4.0,
    disturbs=True,
)
