"""The requests scenario: many callers of a real asynchronous engine, one that serves them well and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.processes import engine_process_died
from rldoctor_checks.rollout import engine_shared

from rldoctor.api import Case, NotApplicable, Outcome
from rldoctor.api.probes import Basis, Request, Run, Scenario
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.requests import requests
from tests.live import Played, cases_of_one_import, scenario_case
from tests.plans import case as planned


def hurried(scenario: Scenario, silence: float, limit: float) -> Scenario:
    """The same with less patience."""

    def runs(*given: Any) -> Mapping[str, Run]:
        return {
            name: replace(run, arguments={**run.arguments, "silence": silence}, time_limit=limit)
            for name, run in scenario.runs(*given).items()
        }

    return replace(scenario, runs=runs)


@pytest.fixture(scope="module")
def played(patient: Path) -> dict[str, Case]:
    """The scenario on a healthy engine and on ones with faults of ``faults/callers.py``."""
    faults = {"healthy": None, "unruly": "callers:unruly", "killed": "callers:killed"}
    asked = hurried(requests, silence=1.0, limit=120.0)
    return cases_of_one_import(patient, {name: Played((asked,), fault=fault) for name, fault in faults.items()})


def run_of(case: Case) -> dict[str, Any]:
    return dict(case.observations["requests"]["callers"])


class TestWhere:
    def test_without_a_launch_the_asynchronous_engine_is_tried(self) -> None:
        (run,) = requests.runs(Case(), Request(), Basis()).values()
        assert run.engine.kind == "async" and run.arguments["longest"] == 2047

    def test_a_launch_that_drives_vllm_llm_is_not_asked(self) -> None:
        thread = {"framework": "ms-swift", "versions": {"ms-swift": "3.4.1"}, "rollout__async": True}
        chosen = {"rollout__async_engine": False, "rollout__async": True}
        for settings in (chosen, {"placement__mode": "colocate"}, thread):
            with pytest.raises(NotApplicable, match=r"vllm\.LLM"):
                requests.runs(planned(**settings), Request(), Basis())

    def test_servers_and_asynchronous_training_are(self) -> None:
        for settings in ({"rollout__async_engine": True}, {"placement__mode": "server"}, {"rollout__async": True}):
            assert requests.runs(planned(**settings), Request(), Basis())

    def test_short_models_are_asked_for_what_they_can_give(self) -> None:
        (run,) = requests.runs(Case(), Request(), Basis(model_len=64, prompt=32, response=16)).values()
        assert run.arguments["prompt"] + run.arguments["response"] <= run.arguments["longest"] == 63


@pytest.mark.engine
def test_a_healthy_engine_answers_everybody(played: dict[str, Case]) -> None:
    case = played["healthy"]
    job = run_of(case)
    assert job["ended"] == "done", job["tail"][-5:]
    reported = job["records"]
    kinds = {call["kind"] for call in reported["calls"]}
    assert {"whole", "streamed", "growing", "group", "abort", "cancel", "leave", "timeout"} < kinds
    ends = {call["kind"]: call["ended"] for call in reported["calls"]}
    assert ends["whole"] == "answered" and ends["cancel"] == "cancelled" and ends["leave"] == "left"
    assert ends["second of an id"] in ("answered", "refused")
    assert reported["engine"]["engine"] in ("V0", "V1") and reported["engine"]["dtype"]
    assert not any(reported["left"].values())
    for check in (engine_shared.check, engine_process_died.check):
        result = judge_one(check, case)
        assert result.outcome is Outcome.PASS, result.findings


@pytest.mark.engine
def test_callers_that_are_served_badly(played: dict[str, Case]) -> None:
    found = {
        finding.message.partition(":")[0]: finding
        for finding in judge_one(engine_shared.check, played["unruly"]).findings
    }
    texts = " | ".join(found)
    assert "2 of" in texts and "answers went to callers that had asked something else" in texts
    assert "are not what the same engine answers when nobody else asks" in texts
    assert "1 of" in texts and "answers came twice or in part" in texts
    assert "requests were never answered, while later ones were" in texts
    assert "requests that were aborted or cancelled are still in the engine when all is over" in texts
    swapped = next(finding for message, finding in found.items() if "something else" in message)
    assert "got the answer to prompt" in swapped.evidence[0].text


@pytest.mark.engine
def test_an_engine_that_is_killed_amid_its_answers(played: dict[str, Case]) -> None:
    case = played["killed"]
    (finding,) = judge_one(engine_process_died.check, case).findings
    assert "was ended by SIGKILL (exit code -9) while it answered" in finding.message
    assert any("callers got" in one.text for one in finding.evidence)
    assert not judge_one(engine_shared.check, case).findings


@pytest.mark.engine
def test_an_engine_that_stands_still(patient: Path) -> None:
    case = scenario_case(patient, hurried(requests, silence=1.0, limit=20.0), fault="callers:stopped")
    job = run_of(case)
    assert job["ended"] == "stalled" and any("Timeout (" in line for line in job["tail"])
    assert not judge_one(engine_shared.check, case).findings
