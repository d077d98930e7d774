"""The V0 scheduler's assertion about sequences that had stopped, reproduced by ``min_tokens`` beyond what the context
leaves, and cured by a longer context.

Recorded on vLLM 0.9.1's V0 engine; played anew where RLDOCTOR_V0 names an interpreter that has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.chunked_prefill import check

from rldoctor.api import Case, Grade, Outcome, RolloutPlan, Setting
from rldoctor.flow import examination
from rldoctor.flow.prove import with_edits
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.min_tokens import min_tokens
from tests.live import scenario_case
from tests.loaded import REGISTRY
from tests.logs.raising import found
from tests.observations import packages

RECORDED = Path(__file__).parent / "recorded"
SETTINGS = {
    "env.VLLM_USE_V1": "0",
    "engine.max_model_len": 256,
    "lengths.prompt": 200,
    "sampling.min_tokens": 64,
}
PLAN = RolloutPlan(
    framework="vLLM",
    dialect="vLLM",
    file="run.sh",
    entry="",
    settings={name: Setting(value=value, file="run.sh", line=3, key=name) for name, value in SETTINGS.items()},
)


@pytest.fixture(params=["recorded", pytest.param("anew", marks=[pytest.mark.v0, pytest.mark.engine])])
def played(request: pytest.FixtureRequest) -> Any:
    """The case of a plan that was played on a V0 engine: ``before`` the fix or ``after``."""
    if request.param == "recorded":
        return lambda when, plan: recorded(when, plan)
    python = request.getfixturevalue("v0_patient")
    return lambda when, plan: anew(python, json.dumps({n: s.value for n, s in plan.settings.items()}), plan)


def recorded(when: str, plan: RolloutPlan) -> Case:
    reported = json.loads((RECORDED / "v0_min_tokens.json").read_text())[when]
    return Case(packages=packages(vllm="0.9.1"), plan=plan, observations=reported)


ANEW: dict[str, Case] = {}


def anew(python: Path, key: str, plan: RolloutPlan) -> Case:
    if key not in ANEW:
        ANEW[key] = scenario_case(python, min_tokens, plan=plan, fault="v0_async_output:supported")
    return ANEW[key]


def test_the_assertion_is_reproduced_and_reported_with_its_fixes_length_first(played: Any) -> None:
    case = played("before", PLAN)
    (finding,) = judge_one(check, case).findings
    assert finding.grade is Grade.REPRODUCED
    assert "end vLLM 0.9.1" in finding.message and "`assert len(self._async_stopped) == 0`" in finding.message
    assert finding.evidence[-1].text.endswith("scheduler.py:702 in _schedule_running")
    assert [{edit.option: edit.value for edit in fix.edits} for fix in finding.fixes] == [
        {"engine.max_model_len": 264},
        {"sampling.min_tokens": 56},
        {"engine.enable_chunked_prefill": False},
        {"env.VLLM_USE_V1": "1"},
    ]


def test_it_is_reported_once(played: Any) -> None:
    report = examination.report(played("before", PLAN), REGISTRY.checks.values(), REGISTRY)
    # What is wrong with the laboratory's own packages is another matter.
    assert [finding.code for finding in report.findings if not finding.code.startswith("RLD1")] == ["RLD201"]


def test_with_a_context_that_holds_it_the_same_requests_pass(played: Any) -> None:
    (finding,) = judge_one(check, played("before", PLAN)).findings
    case = played("after", with_edits(PLAN, finding.fixes[0].edits))
    result = judge_one(check, case)
    assert result.outcome is not Outcome.FINDINGS
    assert "max_model_len 264 end at max_model_len" in str(result.reason)


def test_its_log_says_the_same() -> None:
    (finding,) = found(check, (RECORDED / "v0_min_tokens.log").read_text())
    assert "the V0 scheduler holds a sequence that had stopped" in finding.message
