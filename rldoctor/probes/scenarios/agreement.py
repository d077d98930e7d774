"""The ``agreement`` scenario: the engine's log-probabilities against the trainer's, and against its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level
from rldoctor.probes.basis import SHORTEST_PROMPT

REQUESTS = 8
# Every token costs a step of the engine; differences show in the first ones.
LONGEST_RESPONSE = 16
# But in one answer, to see what decoding does later on.
LONGEST_ANSWER = 128
# The longest prompt takes the trainer a forward pass over all of it.
LONGEST_PROMPT = 1024
# What launches choose that choose another temperature than 1.
OTHER_TEMPERATURE = 0.6
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    planned = case.plan.value("sampling.temperature") if case.plan is not None else None
    assumed = case.plan.value("trainer.temperature") if case.plan is not None else None
    reported = [value for value in (planned, assumed) if isinstance(value, int | float) and value > 0]
    response = min(basis.response, LONGEST_RESPONSE, max((basis.model_len - 2) // 2, 1))
    arguments = {
        # One token more is asked of a prompt that holds the completion.
        "prompt": min(basis.prompt, LONGEST_PROMPT, basis.model_len - response - 1),
        "response": response,
        "long": max(min(basis.response, LONGEST_ANSWER, basis.model_len - SHORTEST_PROMPT - 1), response),
        "requests": REQUESTS,
        "temperature": next((float(value) for value in reported if value != 1), OTHER_TEMPERATURE),
        "assumed": [float(value) for value in reported],
    }
    return {"agreement": Run(arguments=arguments, time_limit=SECONDS)}


agreement = Scenario(
    name="agreement",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "agreement.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=2.0,
    vocabulary_seconds=10.0,
)
