"""The ``min_tokens`` scenario: answers that must not be shorter than what is left of the context, or than what the
launch asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Run, Scenario
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan

# Every token costs a step: the room after the prompt is made smaller by a longer prompt.
LONGEST_ROOM = 24
# Tokens asked beyond the room where no launch says how many, and at most.
BEYOND = 8
REQUESTS = 4
# Some three dozen steps take well below a second; some engines never end them.
SECONDS = 60.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    beyond, room = (BEYOND, LONGEST_ROOM) if case.plan is None else _planned(case.plan, basis)
    room = min(room, LONGEST_ROOM, basis.model_len // 2)
    least = max(room + min(beyond, BEYOND), 1)
    # A response limit that vLLM accepts beside it.
    arguments = {"prompt": basis.model_len - room, "least": least, "most": least, "requests": REQUESTS}
    return {"min_tokens": Run(arguments=arguments, time_limit=SECONDS)}


def _planned(plan: RolloutPlan, basis: Basis) -> tuple[int, int]:
    """By how many tokens the launch's ``min_tokens`` goes beyond (below: negative) what its longest prompt leaves, and
    what that is, scaled."""
    least = plan.value("sampling.min_tokens")
    prompt, context = plan.value("lengths.prompt"), plan.value("engine.max_model_len")
    if not least:
        raise NotApplicable("the launch does not ask for min_tokens")
    if prompt is None or context is None:
        raise NotApplicable(
            "the launch does not tell the longest prompt and the context: what min_tokens leaves is open"
        )
    room = max(context - prompt, 1)
    return least - room, max(round(room / basis.scale), 1)


min_tokens = Scenario(
    name="min_tokens",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "min_tokens.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=0.3,
    disturbs=True,
)
