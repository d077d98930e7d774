"""The ``soak`` scenario: cycles of traffic, updates and adapters for minutes, to see what grows, slows down, stalls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.model import Level
from rldoctor.probes.scenarios.lora import engine_of, lora_of, serves_adapters

# Beyond the minutes asked for: the round that is under way when they are over.
LAST_ROUND = 120.0
WINDOWS = 12


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    if request.soak is None:
        raise NotApplicable("no --soak MINUTES was asked for")
    room = basis.model_len - 2
    response = min(basis.response, room // 2)
    seconds = request.soak * 60
    plan = case.plan
    adapter = lora_of(plan) if plan is not None and serves_adapters(plan) else None
    level = (
        plan.value("sleep.level", 1) if plan is not None and plan.value("engine.enable_sleep_mode") is True else None
    )
    arguments = {
        "prompt": min(basis.prompt, room - response),
        "response": response,
        "seconds": seconds,
        "windows": WINDOWS,
        # A real model's weights are not loaded twice, and an engine with adapters has other names.
        "update": adapter is None and request.model is None,
        "adapter": adapter,
        # Level 2 throws the weights away; what gives them back is the sleep scenario's.
        "sleep": 1 if level == 1 and basis.device == "cuda" else None,
    }
    engine = Engine(options=engine_of(adapter) if adapter is not None else {})
    return {"traffic": Run(engine=engine, arguments=arguments, time_limit=seconds + LAST_ROUND)}


soak = Scenario(
    name="soak",
    level=Level.ROLLOUT,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "soak.py",
    runs=_runs,
    disturbs=True,
)
