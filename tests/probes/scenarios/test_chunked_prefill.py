"""The ``chunked_prefill`` scenario: what it records of a real engine, and that the checks find what is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.processes import engine_process_died, failure_unrecognised, run_stalled
from rldoctor_checks.rollout import chunked_prefill as chunked
from rldoctor_checks.rollout import engine_internal, token_budget
from rldoctor_checks.sync import outputs_corrupt

from rldoctor.api import Case, Check, Finding, Outcome, RolloutPlan, Setting
from rldoctor.catalogue.scenario import Basis
from rldoctor.flow import examination
from rldoctor.judge import judge_one
from rldoctor.probes.rollout import rollout
from rldoctor.probes.scenarios.chunked_prefill import chunked_prefill
from tests.cases import judged_among_all
from tests.live import cases_of_faults, only
from tests.loaded import REGISTRY
from tests.observations import packages

CHECKS = (chunked.check, token_budget.check, engine_internal.check, outputs_corrupt.check, failure_unrecognised.check)


# What chunks break, on the engine that has them.
IN_CHUNKS = ("positions_restart", "nan_in_chunks_and_a_lost_request", "scheduler_assertion", "killed")


@pytest.fixture(scope="module")
def broken(patient: Path, under_traffic: Case) -> dict[str, Case]:
    """Beside the healthy engines that they are compared with: on one worker, once."""
    faults = {name: f"chunked_prefill:{name}" for name in IN_CHUNKS}
    seen = cases_of_faults(patient, rollout, only(chunked_prefill, "on"), faults=faults.values())
    return {name: seen[fault] for name, fault in faults.items()}


def findings(check: Check, case: Case) -> list[Finding]:
    return list(judged_among_all(check, case).findings)


def codes(case: Case) -> list[str]:
    """What a report says, of the live runs and their logs."""
    return [finding.code for finding in examination.report(case, REGISTRY.checks.values(), REGISTRY).findings]


def launch(**options: Any) -> RolloutPlan:
    named = {f"engine.{name}": Setting(value=value) for name, value in options.items()}
    return RolloutPlan(framework="vLLM", dialect="vLLM", file="", entry="", settings=named)


def engines(
    version: str, plan: RolloutPlan | None = None, device: str = "cpu", **environment: str
) -> dict[str, dict[str, Any]]:
    """The options that the runs' engines get beyond the basis, by run."""
    case = Case(packages=packages(vllm=version), plan=plan, environment=environment)
    asked = chunked_prefill.runs(case, None, Basis(device=device))  # type: ignore[arg-type]
    return {name: dict(run.engine.options) for name, run in asked.items()}


def test_what_is_compared_with_what() -> None:
    off = {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048}
    assert engines("0.32.0") == {"on": {}, "off": off}
    assert engines("0.32.0", launch(max_num_seqs=8)) == {"on": {}, "off": off}


def test_a_launch_that_does_not_chunk_is_not_compared() -> None:
    assert engines("0.32.0", launch(enable_chunked_prefill=False)) == {"off": {}}
    assert engines("0.9.1", launch(max_model_len=2048), VLLM_USE_V1="0") == {"off": {}}


def test_a_v0_engine_without_a_launch_is_asked_to_chunk_where_it_can() -> None:
    asked = engines("0.9.1", device="cuda", VLLM_USE_V1="0")
    assert asked["off"] == {} and asked["on"]["enable_chunked_prefill"] is True
    assert engines("0.9.1", VLLM_USE_V1="0") == {"off": {}}


@pytest.mark.engine
def test_the_traffic_overflows_the_cache_and_the_patient_stays_right(under_traffic: Case) -> None:
    for job in under_traffic.observations["chunked_prefill"].values():
        assert job["ended"] == "done", job["tail"][-5:]
        trace, reported = job["records"]["trace"], job["records"]
        assert trace["preemptions"] > 0
        assert reported["reach"]["prompt_tokens"] >= 0.9 * reported["cache_tokens"]
        aborted = [answer for answer in trace["answers"].values() if answer["aborted"]]
        assert len(aborted) >= 2 and all(answer["finish_reason"] is None for answer in aborted)
        assert all(len(answer["tops"]) == len(answer["token_ids"]) for answer in trace["answers"].values())
    on, off = (under_traffic.observations["chunked_prefill"][name]["records"]["engine"] for name in ("on", "off"))
    assert (on["enable_chunked_prefill"], off["enable_chunked_prefill"]) == (True, False)
    assert on["max_num_batched_tokens"] < 1024 <= off["max_num_batched_tokens"]
    for check in CHECKS:
        assert findings(check, under_traffic) == []
    reason = judge_one(chunked.check, under_traffic).reason or ""
    assert "greedy answers equal with prefill in chunks and without" in reason


@pytest.mark.engine
def test_chunks_that_lose_their_positions(broken: dict[str, Case], under_traffic: Case) -> None:
    healthy = under_traffic.observations["chunked_prefill"]
    jobs = {"on": broken["positions_restart"].observations["chunked_prefill"]["on"], "off": healthy["off"]}
    (finding,) = findings(chunked.check, replace(under_traffic, observations={"chunked_prefill": jobs}))
    assert "prefill in chunks changes what vLLM" in finding.message
    assert "greedy answers become others" in finding.message and "log-probabilities" in finding.message
    assert finding.fixes[0].edits[0].value is False


@pytest.mark.engine
def test_numbers_that_are_none_and_a_request_that_is_lost(broken: dict[str, Case]) -> None:
    case = broken["nan_in_chunks_and_a_lost_request"]
    (corrupt,) = findings(outputs_corrupt.check, case)
    assert "are no finite numbers, chunked prefill on" in corrupt.message
    (lost,) = findings(engine_internal.check, case)
    assert "loses or mixes up requests of a single caller" in lost.message
    assert any(one.text.startswith("request 7: never got a token") for one in lost.evidence)
    assert judge_one(chunked.check, case).outcome is not Outcome.FINDINGS


@pytest.mark.engine
def test_prompts_that_no_step_has_room_for(traffic: dict[str, Case]) -> None:
    (finding,) = findings(token_budget.check, traffic["no room"])
    assert "max_num_batched_tokens is 512 and prefill is not chunked" in finding.message
    assert finding.fixes[0].edits[0].value == 2048


@pytest.mark.engine
def test_an_assertion_in_the_scheduler(broken: dict[str, Case]) -> None:
    case = broken["scheduler_assertion"]
    job = case.observations["chunked_prefill"]["on"]
    assert job["ended"] == "raised" and job["records"]["trace"]["steps"] > 0
    (finding,) = findings(engine_internal.check, case)
    assert "fails in its own bookkeeping while chunked_prefill: on runs: AssertionError" in finding.message
    assert "v1/core/sched/scheduler.py" in finding.evidence[-2].text
    assert codes(case) == ["RLD220"]


@pytest.mark.engine
def test_a_step_that_never_ends(traffic: dict[str, Case]) -> None:
    case = traffic["hang"]
    assert case.observations["chunked_prefill"]["on"]["ended"] == "stalled"
    (finding,) = findings(run_stalled.check, case)
    assert "did not come to its end in" in finding.message
    assert codes(case) == ["RLD609"]


@pytest.mark.engine
def test_an_engine_that_is_killed_in_the_middle(broken: dict[str, Case]) -> None:
    case = broken["killed"]
    assert case.observations["chunked_prefill"]["on"]["ended"] == "died"
    reported = [*findings(engine_process_died.check, case), *findings(failure_unrecognised.check, case)]
    assert len(reported) == 1 and "SIGKILL" in reported[0].message
    assert codes(case) == [reported[0].code]
    assert findings(chunked.check, case) == []
