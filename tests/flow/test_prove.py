"""A fix is proven only by the same traffic that failed without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.api import Applicability, Case, Edit, Fix, Grade, Outcome, RolloutPlan, Setting
from rldoctor.api.probes import Request
from rldoctor.api.results import CheckResult
from rldoctor.facts import packages
from rldoctor.flow import examination
from rldoctor.flow.probe import run_scenarios
from rldoctor.flow.prove import prove, with_edits
from rldoctor.model import Report
from rldoctor.probes.rollout import rollout
from tests.flow.test_failed_runs import TOO_SMALL, failing
from tests.loaded import REGISTRY
from tests.observations import rollout_case


def plan(**options: object) -> RolloutPlan:
    named = {f"engine.{name}": Setting(value=value) for name, value in options.items()}
    return RolloutPlan(framework="vLLM", dialect="vLLM", file="", entry="", settings=named)


def test_an_edit_changes_adds_or_takes_away_a_setting() -> None:
    edits = (
        Edit(option="engine.max_model_len", value=4096),
        Edit(option="env.VLLM_USE_V1", value="1"),
        Edit(option="engine.seed", value=None),
    )
    mended = with_edits(plan(max_model_len=2048, seed=0, block_size=16), edits)
    assert {name: setting.value for name, setting in mended.settings.items()} == {
        "engine.max_model_len": 4096,
        "engine.block_size": 16,
        "env.VLLM_USE_V1": "1",
    }


@pytest.mark.parametrize(
    ("case", "grade"),
    [
        pytest.param(rollout_case(), Grade.REPRODUCED, id="no launch"),
        pytest.param(Case(plan=plan()), Grade.DECLARED, id="only declared"),
        pytest.param(Case(plan=plan()), Grade.REPRODUCED, id="nothing was played"),
        pytest.param(replace(rollout_case(), plan=plan()), Grade.REPRODUCED, id="what was played does not show it"),
    ],
)
def test_where_nothing_can_be_played_nothing_is_proven(case: Case, grade: Grade) -> None:
    fix = Fix.safe("a fix", {"engine.seed": 1})
    finding = REGISTRY.checks["RLD202"].finding("a finding", fixes=(fix,), grade=grade)
    result = CheckResult(code="RLD202", name=finding.name, outcome=Outcome.FINDINGS, findings=(finding,))
    report = Report(target="a launch", results=(result,))
    reported: list[str] = []
    assert prove(case, report, REGISTRY, Request(), reported.append) == report
    assert reported == []


def test_a_fix_that_changes_nothing_for_the_miniature_is_not_tried() -> None:
    case = replace(failing(*TOO_SMALL), plan=plan(gpu_memory_utilization=0.5))
    edit = Edit(option="engine.gpu_memory_utilization", value=0.9)
    fix = Fix(title="a larger share", applicability=Applicability.SAFE, edits=(edit,))
    (finding,) = examination.report(case, REGISTRY.checks.values(), REGISTRY).findings
    assert (finding.code, finding.grade) == ("RLD205", Grade.REPRODUCED)
    finding = replace(finding, fixes=(fix,))
    result = CheckResult(code="RLD205", name=finding.name, outcome=Outcome.FINDINGS, findings=(finding,))
    reported: list[str] = []
    after = prove(case, Report(target="a launch", results=(result,)), REGISTRY, Request(), reported.append)
    assert reported == [] and after.findings[0].fixes == (fix,)


def test_what_a_proof_costs_is_said_beforehand() -> None:
    case = replace(failing(*TOO_SMALL), plan=plan(max_model_len=2048))
    edit = Edit(option="engine.max_model_len", value=1024)
    fix = Fix(title="shorter", applicability=Applicability.SAFE, edits=(edit,))
    (finding,) = examination.report(case, REGISTRY.checks.values(), REGISTRY).findings
    finding = replace(finding, fixes=(fix,))
    result = CheckResult(code="RLD205", name=finding.name, outcome=Outcome.FINDINGS, findings=(finding,))
    report = Report(target="a launch", results=(result,))
    reported: list[str] = []
    # This interpreter has no vLLM: the boot fails, which proves nothing.
    assert prove(case, report, REGISTRY, Request(), reported.append) == report
    assert reported == ["proving a fix of RLD205: shorter: about 21 s", "miniature"]


@pytest.mark.engine
def test_a_launch_that_does_not_boot_is_proven_to_boot_with_the_fix(patient: Path) -> None:
    request = Request(python=patient)
    broken = plan(enable_chunked_prefill=False, max_num_batched_tokens=1024, max_model_len=2048)
    case = Case(packages=packages.collect(request), plan=broken)
    case = run_scenarios(case, [rollout], request, lambda _: None)
    before = examination.report(case, REGISTRY.checks.values(), REGISTRY)
    assert [(one.code, one.grade) for one in before.findings] == [("RLD202", Grade.REPRODUCED)]
    reported: list[str] = []
    after = prove(case, before, REGISTRY, request, reported.append)
    (finding,) = [one for one in after.findings if one.code == "RLD202"]
    assert finding.grade is Grade.REPRODUCED
    proven = [fix for fix in finding.fixes if fix.proven]
    assert len(proven) == 1 and "RLD202 is gone" in str(proven[0].proven)
    assert reported[0].startswith("proving a fix of RLD202")
