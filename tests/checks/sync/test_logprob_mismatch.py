"""RLD403 fires where engine and trainer disagree beyond each framework's own bound for longer than a spike."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.api import Case, Finding, Severity
from rldoctor.api.facts import Series
from rldoctor.judge import judge_one
from rldoctor.logs import metrics
from tests.loaded import REGISTRY
from tests.logs.asking import finding as log_finding
from tests.logs.asking import findings as log_findings
from tests.logs.asking import raised

check = REGISTRY.checks["RLD403"]
DATA = Path(__file__).parents[2] / "logs" / "metrics" / "data"


def findings(case: Case) -> tuple[Finding, ...]:
    return judge_one(check, case).findings


def logged(name: str) -> Case:
    lines = (DATA / name).read_bytes().decode().split("\n")
    return Case(metrics=metrics.collect((name, number, line) for number, line in enumerate(lines, 1)))


def made(name: str, values: list[float]) -> Case:
    return Case(metrics={name: Series(key=name, steps=tuple(range(1, len(values) + 1)), values=tuple(values))})


def test_verls_probabilities_differ() -> None:
    (finding,) = findings(logged("verl_mismatch.txt"))
    assert finding.severity is Severity.WARNING
    assert "token probabilities differ by 0.033 on average, since step 1" in finding.message
    assert any(edit.option == "engine.disable_cascade_attn" for fix in finding.fixes for edit in fix.edits)


def test_nemo_rls_error_and_its_beginning() -> None:
    (finding,) = findings(made("sampling_prob_error", [1.01] * 10 + [35.0] * 30))
    assert finding.severity is Severity.ERROR and "since step 11" in finding.message


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("sampling_logp_difference_mean", 0.2, Severity.WARNING),
        ("sampling_logp_difference_mean", 1.5, Severity.ERROR),
        ("sampling_prob_correlation", 0.9, Severity.WARNING),
        ("sampling_kl", -0.3, Severity.WARNING),
    ],
)
def test_bounds(name: str, value: float, severity: Severity) -> None:
    assert [f.severity for f in findings(made(name, [value] * 5))] == [severity]


def test_one_step_is_a_note_unless_it_is_far_beyond() -> None:
    assert [f.severity for f in findings(made("sampling_logp_difference_mean", [0.2]))] == [Severity.NOTE]
    assert [f.severity for f in findings(made("sampling_logp_difference_mean", [2.0]))] == [Severity.ERROR]


@pytest.mark.parametrize("name", ["verl.txt", "verl_0.4.txt", "skyrl.txt", "openrlhf.txt", "ms_swift.txt"])
def test_the_usual_noise_is_quiet(name: str) -> None:
    assert findings(logged(name)) == ()


def test_spikes_are_quiet() -> None:
    assert findings(made("sampling_prob_error", [1.01, 1.02, 80.0, 1.01, 1.02, 40.0, 1.01])) == ()


def test_nothing_logged() -> None:
    assert findings(logged("trl_healthy.txt")) == ()


def test_a_difference_that_grows_is_about_stale_weights() -> None:
    values = [0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.81]
    assert findings(made("sampling_logp_difference_mean", values)) == ()


def test_log_probabilities_of_other_lengths() -> None:
    # https://github.com/huggingface/trl/issues/4205
    code = "ratio = torch.exp(old_per_token_logps - sampling_per_token_logps)"
    text = "The size of tensor a (512) must match the size of tensor b (498) at non-singleton dimension 1"
    assert (
        "of 498 tokens and the trainer's of 512" in log_finding(check, raised("RuntimeError", text, code=code)).message
    )
    assert log_findings(check, raised("RuntimeError", "CUDA out of memory.", code=code)) == []
