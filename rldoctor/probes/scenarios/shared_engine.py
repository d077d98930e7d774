"""The ``shared_engine`` scenario: training and evaluation in two threads on one engine, where a launch has it so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.knowledge.sharing import evaluates_on_it, samples_in_a_thread
from rldoctor.model import Level

PROMPT, RESPONSE = 48, 12
SECONDS = 300.0
# What two threads leave behind is no engine for others.
OWN = 9


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    if not evaluates_on_it(case):
        raise NotApplicable("no thread of this launch drives an engine that another one uses")
    length = {"prompt": min(PROMPT, basis.model_len // 2), "response": min(RESPONSE, basis.model_len // 4)}
    turns = not samples_in_a_thread(case)
    engine = Engine() if turns else Engine(replica=OWN)
    return {"threads": Run(engine=engine, arguments={**length, "turns": turns}, time_limit=SECONDS)}


shared_engine = Scenario(
    name="shared_engine",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "two_threads.py",
    runs=_runs,
    needs=("packages.vllm", "plan"),
    seconds=3.0,
    disturbs=True,
)
