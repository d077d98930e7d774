"""Engines that do not come up, in every scenario: the report says why, once, and nothing that needed them passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.api import Case, NotApplicable, Outcome
from rldoctor.api.probes import Request, Scenario
from rldoctor.flow import examination
from rldoctor.model import Report
from rldoctor.probes.basis import basis
from rldoctor.probes.boots import Asked, plan_boots
from rldoctor.probes.engines import play
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.lengths import lengths
from tests.live import CHILD_HEAD, scenario_case
from tests.loaded import REGISTRY
from tests.plans import case as planned

# Due are nearly all scenarios, on several engines.
LAUNCH = planned(
    "TRL",
    engine__enable_lora=True,
    engine__enable_chunked_prefill=True,
    engine__max_model_len=1024,
    lora__rank=8,
    lora__alpha=16,
    lengths__prompt=256,
    lengths__response=128,
    placement__engines=2,
    batch__generation=8,
    batch__generations=8,
    sampling__n=1,
    seed__per_request="none",
    seed__per_replica="replica",
    seed__engine=0,
)
# A child with the protocol of the real one that gets as far as the boot.
CHILD = """
def main(arguments):
    emit("versions", {"vllm": "0.32.0"})
    stage("boot")
    %s

run(main)
"""
# How the boot ends, what is found, and a word that says why.
ENDS = {
    "refused": ("raise ValueError('the engine refuses to start')", "RLD900", "the engine refuses to start"),
    "without memory": ("raise MemoryError('cannot allocate 3 GiB')", "RLD604", "refused an allocation"),
    "illegal instruction": ("os.kill(os.getpid(), signal.SIGILL)", "RLD900", "SIGILL"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "RLD900", "SIGKILL"),
    "without a word": ("os._exit(3)", "RLD900", "exit code 3"),
    "hangs": ("time.sleep(60)", "RLD900", "did not end within 2 s"),
}


def judged(reported: Case) -> Report:
    return examination.report(reported, REGISTRY.checks.values(), REGISTRY)


def passed_by_engines(report: Report, reported: Case) -> dict[str, str | None]:
    """The codes that pass although they judge what engines do, but for that of failures without another code."""
    live = {
        check.code
        for check in REGISTRY.checks.values()
        for detector in check.detectors
        if {need.split(".")[1] for need in detector.needs if need.startswith("observations.")}
        & set(reported.observations)
    }
    return {
        one.code: one.reason for one in report.results if one.code in live - {"RLD900"} and one.outcome is Outcome.PASS
    }


@pytest.mark.parametrize("end", ENDS)
def test_no_engine_comes_up(tmp_path: Path, end: str) -> None:
    source, code, said = ENDS[end]
    child = tmp_path / "child.py"
    child.write_text(CHILD_HEAD + CHILD % source)
    request = Request(soak=1.0, time_limit=2.0 if end == "hangs" else 30.0)
    base = basis(LAUNCH, request)
    asked = []
    for scenario in REGISTRY.probes.values():
        if isinstance(scenario, Scenario):
            try:
                asked += [Asked(scenario, name, run) for name, run in scenario.runs(LAUNCH, request, base).items()]
            except NotApplicable:
                continue
    boots = plan_boots(asked, base)
    assert len(boots) > 2 and len(asked) > 8
    reported = replace(LAUNCH, observations=play(LAUNCH, request, base, boots, lambda _: None, child))
    report = judged(reported)
    (found,) = [one for one in report.findings if one.grade.value in ("observed", "reproduced")]
    assert found.code == code and said in found.message
    assert passed_by_engines(report, reported) == {}
    # One that hangs is waited for once.
    tried = reported.observations["rollout"]
    assert len(tried) == (1 if end == "hangs" else len(boots))
    (lost,) = reported.observations["lengths"].values()
    assert lost["ended"] == "not-run" and "its engine did not come up" in lost["why"] and "at stage boot" in lost["why"]


@pytest.mark.engine
def test_a_real_engine_that_does_not_come_up(patient: Path) -> None:
    reported = scenario_case(patient, agreement, lengths, fault="boots:illegal_instruction")
    report = judged(reported)
    (found,) = [one for one in report.findings if one.grade.value in ("observed", "reproduced")]
    assert found.code == "RLD900" and "SIGILL at stage boot" in found.message
    assert passed_by_engines(report, reported) == {}
