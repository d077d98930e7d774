"""RLD501 fires where no group has differing rewards, and not on a loss that is 0 by construction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from rldoctor.api import Case, Finding, Outcome, Severity
from rldoctor.edits.fixes import spelled as render
from rldoctor.judge import judge_one
from tests.checks.launches import launch
from tests.loaded import REGISTRY

check = REGISTRY.checks["RLD501"]
Logged = Callable[[str], Case]
Made = Callable[..., Case]


def findings(case: Case) -> tuple[Finding, ...]:
    return judge_one(check, case).findings


def test_a_constant_reward(logged: Logged) -> None:
    (finding,) = findings(logged("trl_constant_reward.txt"))
    assert finding.severity is Severity.ERROR
    assert "all 4 steps since step 1 (mean reward 1)" in finding.message
    assert finding.evidence[0].text == "step 1: reward 1, reward_std 0, frac_reward_zero_std 1, grad_norm 0"
    assert finding.evidence[0].source == "trl_constant_reward.txt" and finding.evidence[0].line == 3


def test_a_reward_of_the_prompt_only(logged: Logged) -> None:
    (finding,) = findings(logged("trl_prompt_only_reward.txt"))
    assert any(edit.option == "sampling.top_k" for fix in finding.fixes for edit in fix.edits)


def test_more_completions_are_asked_for_in_the_launch_s_words(logged: Logged) -> None:
    case = logged("trl_constant_reward.txt")
    plain = findings(case)[0].fixes[-1]
    assert plain.title == "more completions per prompt, and prompts neither too easy nor too hard" and not plain.edits
    planned = replace(case, plan=launch("verl", batch__generations=5).plan)
    spelled = render(judge_one(check, planned), planned.plan).findings[0].fixes[-1]
    assert [edit.spelled for edit in spelled.edits] == ["actor_rollout_ref.rollout.n=10"]


def test_advantages_tell_where_no_deviation_is_logged(logged: Logged) -> None:
    for name in ("verl_zero_advantage.txt", "skyrl_zero_advantage.txt"):
        assert [f.severity for f in findings(logged(name))] == [Severity.ERROR]


@pytest.mark.parametrize(
    "name",
    [
        "trl_healthy.txt",
        "trl_forty_steps.txt",
        "trl_every_second_step.txt",
        "trl_kl.txt",
        "trl_rate_zero.txt",
        "trl_short_limit.txt",
        "verl.txt",
        "verl_0.4.txt",
        "skyrl.txt",
        "openrlhf.txt",
        "ms_swift.txt",
        "easyr1.txt",
    ],
)
def test_runs_with_a_signal_are_quiet(logged: Logged, name: str) -> None:
    assert findings(logged(name)) == ()


def test_a_loss_of_zero_alone_says_nothing(made: Made) -> None:
    case = made(loss=[0.0] * 20, reward=[0.5] * 20, reward_std=[0.2] * 20, frac_reward_zero_std=[0.25] * 20)
    assert findings(case) == ()


def test_single_steps_without_variance_are_normal(made: Made) -> None:
    shares = [0.5, 1.0, 0.25, 1.0, 1.0, 0.75, 1.0, 1.0, 1.0]
    assert findings(made(frac_reward_zero_std=shares, reward=[0.4] * 9)) == ()


def test_two_steps_are_a_note(made: Made) -> None:
    (finding,) = findings(made(frac_reward_zero_std=[1.0, 1.0], reward=[0.0, 0.0]))
    assert finding.severity is Severity.NOTE


def test_a_run_that_lost_its_signal_says_since_when(made: Made) -> None:
    shares, rewards = [0.5] * 8 + [1.0] * 12, [0.8] * 8 + [0.0] * 12
    (finding,) = findings(made(frac_reward_zero_std=shares, reward=rewards))
    assert finding.severity is Severity.WARNING and finding.message.startswith("since step 9 (12 of 20 steps)")


def test_a_solved_run_is_a_note(made: Made) -> None:
    shares, rewards = [0.5] * 8 + [1.0] * 12, [0.8] * 8 + [1.0] * 12
    (finding,) = findings(made(frac_reward_zero_std=shares, reward=rewards))
    assert finding.severity is Severity.NOTE and "solved" in finding.message


def test_truncation_is_the_likelier_cause_of_nothing_but_zero_rewards(made: Made) -> None:
    case = made(frac_reward_zero_std=[1.0] * 12, reward=[0.0] * 12, clipped_ratio=[1.0] * 12)
    (finding,) = findings(case)
    assert finding.severity is Severity.WARNING, "RLD503 is the error there"


def test_rounding_is_no_variance(made: Made) -> None:
    assert findings(made(reward=[0.4] * 4, reward_std=[3e-8] * 4))


def test_nan_rewards_are_another_matter(logged: Logged, made: Made) -> None:
    assert findings(logged("trl_nan_reward.txt")) == ()
    assert findings(made(reward=[1.0] * 4, reward_std=[0.0, 0.0, 0.0, math.nan])), "what is known is 0"


def test_nothing_logged() -> None:
    assert judge_one(check, Case()).outcome is Outcome.NOT_CHECKED
    assert judge_one(check, Case(metrics={})).outcome is Outcome.NOT_APPLICABLE
