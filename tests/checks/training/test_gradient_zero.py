"""RLD502 fires where there is something to learn and the update reaches nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rldoctor.api import Case, Finding, Outcome, Severity
from rldoctor.judge import judge_one
from tests.loaded import REGISTRY

check = REGISTRY.checks["RLD502"]
Logged = Callable[[str], Case]
Made = Callable[..., Case]


def findings(case: Case) -> tuple[Finding, ...]:
    return judge_one(check, case).findings


def test_no_gradient_although_rewards_differ(made: Made) -> None:
    (finding,) = findings(made(grad_norm=[0.0] * 6, reward=[0.3] * 6, reward_std=[0.2] * 6, loss=[0.0] * 6))
    assert finding.severity is Severity.ERROR
    assert finding.evidence[0].text == "step 1: grad_norm 0, reward 0.3, reward_std 0.2, loss 0"


def test_all_completions_masked(made: Made) -> None:
    case = made(grad_norm=[0.0] * 4, reward_std=[0.2] * 4, clipped_ratio=[1.0] * 4)
    assert "masked out of the loss" in findings(case)[0].message


def test_a_learning_rate_of_zero_throughout(logged: Logged) -> None:
    (finding,) = findings(logged("trl_rate_zero.txt"))
    assert finding.severity is Severity.WARNING and "learning rate is 0 at all 4 steps" in finding.message


def test_weights_too_coarse_for_their_steps(logged: Logged) -> None:
    (finding,) = findings(logged("trl_rate_tiny_bf16.txt"))
    assert "KL divergence from the reference is exactly 0 at all 7 steps" in finding.message


@pytest.mark.parametrize(
    "name",
    [
        "trl_healthy.txt",
        "trl_forty_steps.txt",
        "trl_kl.txt",
        "trl_constant_reward.txt",
        "trl_nan_reward.txt",
        "trl_rate_1000.txt",
        "trl_infinite_deviation.txt",
        "verl.txt",
        "verl_0.4.txt",
        "verl_zero_advantage.txt",
        "skyrl_zero_advantage.txt",
        "openrlhf.txt",
        "nemo_rl.txt",
        "easyr1.txt",
    ],
)
def test_other_runs_are_quiet(logged: Logged, name: str) -> None:
    assert findings(logged(name)) == ()


def test_warm_up_from_zero_is_normal(made: Made) -> None:
    case = made(learning_rate=[0.0, 0.0, 1e-6, 2e-6], grad_norm=[0.3] * 4, kl=[0.0, 0.0, 0.0, 1e-7])
    assert findings(case) == ()


def test_kl_is_counted_from_the_first_update_on(made: Made) -> None:
    assert findings(made(learning_rate=[0.0] * 8 + [1e-6] * 3, kl=[0.0] * 11, grad_norm=[0.1] * 11)) == ()


def test_no_gradient_without_a_signal_is_another_matter(made: Made) -> None:
    assert findings(made(grad_norm=[0.0] * 6, reward_std=[0.0] * 6)) == ()


def test_where_all_is_cut_off_nothing_is_said_of_frozen_parameters(made: Made) -> None:
    (finding,) = findings(made(grad_norm=[0.0] * 4, reward_std=[0.2] * 4, clipped_ratio=[1.0] * 4))
    assert [("completion limit" in fix.title) for fix in finding.fixes] == [True]


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        ({"grad_norm": [math.nan] * 6, "reward_std": [0.2] * 6}, "the gradient norm is NaN at every step"),
        ({"learning_rate": [0.0, 0.0]}, "a learning rate of 0 is logged at 2 steps: a warm-up may begin so"),
    ],
)
def test_too_little_is_no_pass(made: Made, series: dict[str, list[float]], reason: str) -> None:
    result = judge_one(check, made(**series))
    assert (result.outcome, result.reason) == (Outcome.NOT_CHECKED, reason)


def test_few_steps_after_the_first_update_are_named(made: Made) -> None:
    result = judge_one(check, made(learning_rate=[1e-6] * 4, kl=[0.0] * 4))
    assert result.reason is not None and "KL is logged at 3 steps after the first update: too few" in result.reason
