"""The ``sampling`` scenario: tokens drawn at one place against the trainer's distribution there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.model import Level
from rldoctor.probes.scenarios.agreement import OTHER_TEMPERATURE

# With so many draws a parameter that is ignored, or a border token that is missing, shows; of several tokens three are
# drawn for each request.
DRAWS, PATHS = 640, 160
# Completions and tokens of each: a temperature that is off by a tenth shows where the distribution is that of a real
# model, and one wrong draw in twenty is missed by chance once in ten thousand runs (with 64, once in a hundred).
LONG = (88, 96)
# The same for each penalty.
PENALTIES = (48, 32)
# And of requests with seeds, whose draws are another path through an engine's sampler.
SEEDED = (64, 64)
SECONDS = 600.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    planned = case.plan.value("sampling.temperature") if case.plan is not None else None
    other = float(planned) if isinstance(planned, int | float) and planned > 0 and planned != 1 else OTHER_TEMPERATURE
    arguments = {"draws": DRAWS, "paths": PATHS, "long": LONG, "penalties": PENALTIES, "seeded": SEEDED}
    # How an engine draws from a distribution is no matter of how many tokens it has.
    engine = Engine(few_tokens=basis.large_vocabulary)
    return {"sampling": Run(engine=engine, arguments={**arguments, "temperature": other}, time_limit=SECONDS)}


sampling = Scenario(
    name="sampling",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "sampling.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=13.0,
)
