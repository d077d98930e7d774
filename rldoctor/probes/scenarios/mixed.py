"""The ``mixed`` scenario: one batch of requests that differ in all that a request can ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan

# Of each kind: together more than two hundred requests, as a rollout has them.
EACH = 6
# Some end after a few steps, others go on when their rows have moved.
SHORTEST, LONGEST = 6, 48
# By how many times the longest answer the last ones are longer: alone they take most of the time.
MORE = 3
SECONDS = 600.0
# What a launch may ask of the sampler, and what asks for nothing.
NEUTRAL = {
    "temperature": (1,),
    "top_k": (-1, 0),
    "top_p": (1,),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
}


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    longest = max(min(LONGEST, basis.model_len // 4), 1)
    arguments = {
        "each": EACH,
        "shortest": min(SHORTEST, longest),
        "longest": longest,
        "more": longest * MORE,
        "own": _own(case.plan),
    }
    engine = Engine(few_tokens=basis.large_vocabulary)
    return {"mixed": Run(engine=engine, arguments=arguments, time_limit=SECONDS)}


def _own(plan: RolloutPlan | None) -> dict[str, float]:
    """What the launch asks of the sampler; greedy requests are a kind of their own."""
    given = {name: plan.value(f"sampling.{name}") for name in NEUTRAL} if plan is not None else {}
    asked = {n: v for n, v in given.items() if isinstance(v, int | float) and v not in NEUTRAL[n]}
    return {} if asked.get("temperature", 1) <= 0 else asked


mixed = Scenario(
    name="mixed",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "mixed.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=12.0,
)
