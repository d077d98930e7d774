"""The V0 scheduler's assertion, reproduced in both of the ways that are known, and cured; with chunked prefill it does
not come, and the fault stays.

The recorded observations and logs are of vLLM 0.9.1's V0 engine; the same is played anew where RLDOCTOR_V0 names an
interpreter that has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.engine_shared import check

from rldoctor.api import Case, Grade, Outcome, RolloutPlan
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.interrupted import interrupted
from tests.live import scenario_case
from tests.logs.raising import found
from tests.probes.scenarios.test_shared_engine import launched, swift

RECORDED = Path(__file__).parent / "recorded"
ASSERTION = "AssertionError at vllm/core/scheduler.py:1304 in _schedule_default"


def plan(chunked: bool, **settings: Any) -> RolloutPlan:
    found = swift(engine__enable_chunked_prefill=chunked, env__VLLM_USE_V1="0", **settings).plan
    assert found is not None
    return found


def laboratory(python: Path, chunked: bool) -> dict[str, Any]:
    """What two threads, two threads in turns, and interruptions leave behind on a V0 engine, by scenario and run."""
    turns = replace(launched(swift(rollout__async=False)), name="turns")
    fault = "v0_lab:chunked_attention" if chunked else None
    case = scenario_case(python, launched(swift()), turns, interrupted, plan=plan(chunked), fault=fault)
    return dict(case.observations)


@pytest.fixture(params=["recorded", pytest.param("anew", marks=[pytest.mark.v0, pytest.mark.engine])])
def v0(request: pytest.FixtureRequest) -> Callable[[bool], dict[str, Any]]:
    """The laboratory's observations with chunked prefill and without."""
    if request.param == "recorded":
        return recorded
    python = request.getfixturevalue("v0_patient")
    return lambda chunked: anew(python, chunked)


@cache
def recorded(chunked: bool) -> dict[str, Any]:
    reported = json.loads((RECORDED / f"v0_{'chunked' if chunked else 'whole'}_prefill.json").read_text())
    return dict(reported["observations"])


@cache
def anew(python: Path, chunked: bool) -> dict[str, Any]:
    return laboratory(python, chunked)


def threads(observations: dict[str, Any], name: str, chunked: bool) -> Case:
    reported = {"shared_engine": observations[name]}
    return Case(observations=reported, plan=plan(chunked, rollout__async=name != "turns"))


def interruption(observations: dict[str, Any], which: str) -> dict[str, Any]:
    return dict(observations["interrupted"]["again"]["records"][which])


def test_two_threads_collide_and_turns_cure_it(v0: Callable[[bool], dict[str, Any]]) -> None:
    reported = v0(False)
    (finding,) = judge_one(check, threads(reported, "shared_engine", False)).findings
    assert finding.grade is Grade.REPRODUCED
    assert judge_one(check, threads(reported, "turns", False)).outcome is Outcome.PASS


def test_the_assertion_is_how_they_collided() -> None:
    reported = recorded(False)  # anew it may be another: the forward context, or a native crash
    engine = reported["shared_engine"]["threads"]["records"]["engine"]
    assert (engine["engine"], engine["enable_chunked_prefill"]) == ("V0", False)
    (finding,) = judge_one(check, threads(reported, "shared_engine", False)).findings
    assert [one.text for one in finding.evidence if one.source == "shared_engine scenario"] == [
        f"evaluation: {ASSERTION}",
        "training: 4 outputs beside prompts that are not theirs",
    ]


def test_what_was_played_is_told_in_place_of_what_is_declared() -> None:
    case = replace(swift(), observations={"shared_engine": recorded(False)["shared_engine"]})
    (finding,) = judge_one(check, case).findings
    assert finding.grade is Grade.REPRODUCED and finding.fixes[0].edits
    assert any("async" in one.text for one in finding.evidence)
    (finding,) = judge_one(check, swift()).findings
    assert finding.grade is Grade.DECLARED


def test_a_step_interrupted_in_prefill_brings_it_and_aborting_cures_it(v0: Callable[[bool], dict[str, Any]]) -> None:
    reported = v0(False)
    result = judge_one(check, Case(observations={"interrupted": reported["interrupted"]}))
    assert result.outcome is Outcome.PASS and f"interrupted in prefill {ASSERTION}" in str(result.reason)
    after = interruption(reported, "reused")
    assert (after["between steps"]["got"], after["between steps"]["foreign"]) == (8, 4)
    assert all(call["got"] == 4 and not call["foreign"] for call in interruption(reported, "aborted").values())


def test_with_chunked_prefill_the_assertion_goes_and_the_fault_stays(v0: Callable[[bool], dict[str, Any]]) -> None:
    reported = v0(True)
    assert reported["shared_engine"]["threads"]["records"]["engine"]["enable_chunked_prefill"] is True
    (finding,) = judge_one(check, threads(reported, "shared_engine", True)).findings
    assert not any("scheduler.py:1304" in one.text for one in finding.evidence)
    assert judge_one(check, threads(reported, "turns", True)).outcome is Outcome.PASS
    after = interruption(reported, "reused")
    assert all(call["ended"] == "answered" and call["foreign"] == 4 for call in after.values()), after
    assert all(call["got"] == 4 and not call["foreign"] for call in interruption(reported, "aborted").values())


# In one of them the assertion in a thread leaves the other without its forward context.
@pytest.mark.parametrize("log", ["v0_two_threads", "v0_both_threads", "v0_interrupted"])
def test_the_logs_are_understood(log: str) -> None:
    (finding,) = found(check, (RECORDED / f"{log}.log").read_text())
    assert "two callers drive one V0 engine, or it was used again after an interrupted step" in finding.message
