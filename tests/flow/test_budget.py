"""A budget of minutes goes to the probes that see the most for their time; the others are left out by name."""

from __future__ import annotations

import time

import pytest

from rldoctor.api import Case
from rldoctor.api.probes import Request
from rldoctor.flow import budget
from rldoctor.flow.probe import expected
from rldoctor.model import Level
from tests.loaded import REGISTRY
from tests.plans import case as planned

LAUNCH = planned("TRL", engine__max_model_len=1024, lengths__prompt=256, lengths__response=128)


def choice(minutes: float, request: Request | None = None, case: Case = LAUNCH) -> budget.Choice:
    given = (REGISTRY.probes.values(), REGISTRY.checks.values(), request or Request(), Level.COMPARE, minutes)
    return budget.choose(case, *given)


def test_without_room_everything_is_left_out_and_unknown() -> None:
    none = choice(0.1)
    assert none.chosen == () and {"rollout", "agreement", "lengths"} <= set(none.left_out)
    why = none.case.unknown["observations.agreement"]
    assert why.reason == "a budget of 0.1 minutes had no room for it" and why.how == "--budget with more minutes"


@pytest.mark.parametrize("minutes", [0.5, 1.0, 2.0])
def test_what_is_chosen_fits(minutes: float) -> None:
    found = choice(minutes)
    chosen = [probe for name, probe in REGISTRY.probes.items() if name in found.chosen]
    assert found.seconds == pytest.approx(expected(LAUNCH, chosen, Request())) and found.seconds <= 60 * minutes


def test_more_minutes_leave_less_out() -> None:
    left = [set(choice(minutes).left_out) for minutes in (0.1, 0.5, 1.0, 60.0)]
    assert left[0] > left[1] > left[2] >= left[3] == set()


def test_one_engine_is_shared_before_another_is_booted() -> None:
    found = choice(0.5)
    # They need an engine of their own or many seconds.
    assert "chunked_prefill" in found.left_out
    assert {"agreement", "answers", "tokens"} <= set(found.chosen)


def test_what_sees_the_most_faults_for_its_time_comes_first() -> None:
    found = choice(0.75)
    # Draws of one parameter at a time take longest and see twice as many as those of mixed batches.
    assert {"agreement", "weights", "sampling"} <= set(found.chosen) and {"mixed", "imports"} <= set(found.left_out)


def test_codes_that_nothing_else_judges_count() -> None:
    # No fault in an engine is seen by what interrupts requests; before anything is booted imports alone fit.
    assert "interrupted" in choice(1.0).chosen and choice(0.25).chosen == ("imports",)


def test_a_soak_costs_its_minutes() -> None:
    asked = Request(soak=5.0)
    assert "soak" in choice(2.0, asked).left_out
    assert "soak" in choice(20.0, asked).chosen


def test_what_runs_nothing_is_neither_chosen_nor_left_out() -> None:
    found = choice(60.0)
    assert "sleep" not in {*found.chosen, *found.left_out}
    assert "observations.sleep" not in found.case.unknown


def test_a_budget_that_is_spent() -> None:
    assert not Request().spent and not Request(until=time.monotonic() + 60).spent
    assert Request(until=time.monotonic() - 1).spent
