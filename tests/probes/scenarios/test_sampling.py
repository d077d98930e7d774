"""The sampler of a real engine: what is drawn fits what was asked for, and a sampler that is broken shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from rldoctor_checks.rollout import option_unknown
from rldoctor_checks.sync import outputs_corrupt

from rldoctor.api import Outcome
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.sampling import sampling
from tests.live import scenario_case


@pytest.mark.engine
def test_a_healthy_sampler_is_quiet_and_says_what_it_would_have_seen(patient: Path) -> None:
    case = scenario_case(patient, sampling)
    for check in (option_unknown.check, outputs_corrupt.check):
        result = judge_one(check, case)
        assert result.outcome is Outcome.PASS, [finding.message for finding in result.findings]
        assert "would show" in (result.reason or "")


@pytest.mark.engine
@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("temperature_ignored", "RLD219", "does not apply temperature"),
        ("top_k_ignored", "RLD219", "does not apply top_k"),
        ("seeds_ignored", "RLD219", "does not apply the seeds"),
        ("biased", "RLD404", "another distribution"),
    ],
)
def test_a_broken_sampler_is_found_once(patient: Path, fault: str, code: str, words: str) -> None:
    case = scenario_case(patient, sampling, fault=f"sampling:{fault}")
    findings = [f for c in (option_unknown.check, outputs_corrupt.check) for f in judge_one(c, case).findings]
    assert [(finding.code, words in finding.message) for finding in findings] == [(code, True)]
