"""Requests that V1 of vLLM 0.11.1 to 0.28 never ends, reproduced by ``min_tokens`` beyond what the context leaves, and
cured by a longer context. Recorded on vLLM 0.26.0."""

from __future__ import annotations

import json
from pathlib import Path

from rldoctor_checks.rollout.length_budget import check

from rldoctor.api import Case, Grade, Outcome, RolloutPlan, Setting
from rldoctor.flow import examination
from rldoctor.flow.prove import with_edits
from rldoctor.judge import judge_one
from tests.loaded import REGISTRY
from tests.observations import packages

RECORDED = Path(__file__).parent / "recorded" / "v1_endless_min_tokens.json"
SETTINGS = {"engine.max_model_len": 256, "lengths.prompt": 200, "sampling.min_tokens": 64}
PLAN = RolloutPlan(
    framework="vLLM",
    dialect="vLLM",
    file="run.sh",
    entry="",
    settings={name: Setting(value=value, file="run.sh", line=3, key=name) for name, value in SETTINGS.items()},
)


def played(when: str, plan: RolloutPlan) -> Case:
    """The case of a plan that was played, ``before`` the fix or ``after``."""
    reported = json.loads(RECORDED.read_text())[when]
    return Case(packages=packages(vllm="0.26.0"), plan=plan, observations=reported)


def test_the_stall_is_reproduced_and_reported_with_its_fixes_length_first() -> None:
    (finding,) = judge_one(check, played("before", PLAN)).findings
    assert finding.grade is Grade.REPRODUCED
    assert "min_tokens 32 after a prompt of 232 and max_model_len 256 never end on vLLM 0.26.0 V1" in finding.message
    assert [{edit.option: edit.value for edit in fix.edits} for fix in finding.fixes] == [
        {"engine.max_model_len": 264},
        {"sampling.min_tokens": 56},
        {},
    ]


def test_it_is_reported_once() -> None:
    report = examination.report(played("before", PLAN), REGISTRY.checks.values(), REGISTRY)
    assert [finding.code for finding in report.findings if not finding.code.startswith("RLD1")] == ["RLD203"]


def test_with_a_context_that_holds_it_the_same_requests_pass() -> None:
    (finding,) = judge_one(check, played("before", PLAN)).findings
    result = judge_one(check, played("after", with_edits(PLAN, finding.fixes[0].edits)))
    assert result.outcome is Outcome.PASS
    assert "min_tokens 24 after a prompt of 240 and max_model_len 264 end on vLLM 0.26.0" in str(result.reason)
