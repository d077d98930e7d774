"""RLD504 fires on NaN, vanished gradients, explosions and collapse; noise and passing spikes are quiet."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from rldoctor.api import Case, Finding, LogEvent, LogRun, Severity
from rldoctor.api.logs import Incident
from rldoctor.judge import judge_one
from tests.loaded import REGISTRY

check = REGISTRY.checks["RLD504"]
Logged = Callable[[str], Case]
Made = Callable[..., Case]


def findings(case: Case) -> tuple[Finding, ...]:
    return judge_one(check, case).findings


def judged(case: Case, line: str, count: int = 1) -> list[Finding]:
    """What the signatures say about a line that was seen so often."""
    signatures = [s for s in check.signatures if any(literal in line for literal in s.literals)]
    return [finding for s in signatures for finding in s.judge(case, event(line, count))]


def event(line: str, count: int = 1) -> LogEvent:
    return LogEvent(
        literal=line, line=line, source="run.log", number=7, count=count, run=LogRun(incident=Incident(kind="crashed"))
    )


def test_an_update_that_broke_the_weights(logged: Logged) -> None:
    (finding,) = findings(logged("trl_rate_1000.txt"))
    assert finding.severity is Severity.ERROR
    assert "gradient norm is exactly 0 since step 2" in finding.message
    assert "1e+03 is far outside" in finding.fixes[0].title


def test_an_entropy_that_falls_at_once(logged: Logged) -> None:
    (finding,) = findings(logged("trl_rate_10_kl.txt"))
    assert "entropy falls from 5.536 to 0.001146 at step 2" in finding.message
    assert [e.text.split(":")[0] for e in finding.evidence] == ["step 1", "step 2"]


def test_rewards_that_are_nan(logged: Logged) -> None:
    (finding,) = findings(logged("trl_nan_reward.txt"))
    assert finding.severity is Severity.ERROR and "reward is nan from step 1 on (4 of 4 steps)" in finding.message
    assert "reward function" in finding.fixes[0].title
    assert [f.severity for f in findings(logged("trl_infinite_deviation.txt"))] == [Severity.ERROR]


def test_a_norm_that_becomes_nan(made: Made, logged: Logged) -> None:
    (finding,) = findings(made(grad_norm=[0.3, 0.4, math.nan, math.nan], loss=[0.1, 0.1, 0.0, 0.0]))
    assert finding.message.startswith("grad_norm is nan from step 3 on (2 of 4 steps)")
    assert findings(logged("verl_file.jsonl"))


def test_a_divergence_that_explodes(made: Made) -> None:
    (finding,) = findings(made(kl=[0.01] * 10 + [0.1, 1.0, 30.0, 50.0, 80.0, 90.0, 99.0], grad_norm=[0.3] * 17))
    assert "beyond 10 since step 13" in finding.message


def test_a_reward_that_is_lost_with_the_entropy(made: Made) -> None:
    chance = random.Random(5)
    learned = [0.2 + 0.02 * step + chance.uniform(-0.05, 0.05) for step in range(25)]
    lost = [0.02 + chance.uniform(0, 0.02) for _ in range(15)]
    (finding,) = findings(made(reward=learned + lost, entropy=[0.4] * 25 + [4.0] * 15))
    assert finding.severity is Severity.WARNING and "entropy 0.4 to 4" in finding.message


@pytest.mark.parametrize(
    "name",
    [
        "trl_healthy.txt",
        "trl_forty_steps.txt",
        "trl_kl.txt",
        "trl_rate_zero.txt",
        "trl_short_limit.txt",
        "trl_constant_reward.txt",
        "trl_top_k_1.txt",
        "verl.txt",
        "verl_0.4.txt",
        "skyrl.txt",
        "openrlhf.txt",
        "ms_swift.txt",
        "nemo_rl.txt",
        "easyr1.txt",
    ],
)
def test_other_runs_are_quiet(logged: Logged, name: str) -> None:
    assert findings(logged(name)) == ()


@pytest.mark.parametrize("seed", range(40))
def test_noise_is_quiet(made: Made, seed: int) -> None:
    chance = random.Random(seed)
    steps = range(200)
    case = made(
        reward=[min(1.0, 0.2 + 0.003 * s) + chance.gauss(0, 0.15) for s in steps],
        entropy=[0.5 * math.exp(-s / 80) * chance.uniform(0.7, 1.3) for s in steps],
        kl=[1e-4 * s * chance.lognormvariate(0, 1) for s in steps],
        grad_norm=[chance.lognormvariate(-1, 1) for s in steps],
        loss=[chance.gauss(0, 0.05) for s in steps],
    )
    assert findings(case) == ()


def test_passing_spikes_are_quiet(made: Made) -> None:
    assert findings(made(kl=[0.01] * 20 + [500.0] + [0.01] * 20, grad_norm=[0.3] * 20 + [9000.0] + [0.3] * 20)) == ()


def test_float16_loss_scaling_starts_with_infinite_norms(made: Made) -> None:
    assert findings(made(grad_norm=[math.inf, math.inf, 0.5, 0.4, 0.4])) == ()
    assert findings(made(grad_norm=[math.inf, math.inf, math.inf, math.inf])) == ()


def test_a_single_nan_loss_is_quiet(made: Made) -> None:
    assert findings(made(loss=[0.1, math.nan, 0.1, 0.1], grad_norm=[0.3] * 4)) == ()


def test_completions_without_a_reward() -> None:
    line = "All reward functions returned None for the following kwargs:"
    assert [f.severity for f in judged(Case(), line)] == [Severity.NOTE]
    assert [f.severity for f in judged(Case(), line, count=4)] == [Severity.WARNING]


def test_skipped_updates() -> None:
    line = "WARN: rank 0 grad_norm is not finite: nan"
    assert not judged(Case(), line, count=2)
    assert judged(Case(), line, count=3)


def test_a_sampler_that_meets_nan(logged: Logged) -> None:
    line = "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"
    (finding,) = judged(logged("trl_sampler_met_nan.txt"), line)
    assert "after step 1 with a learning rate of 1e+20" in finding.message
    assert not judged(logged("trl_healthy.txt"), line)


def test_groups_of_one_are_not_mended_by_a_learning_rate(made: Made) -> None:
    nan = [math.nan] * 5
    (finding,) = findings(made(loss=nan, grad_norm=nan, reward=[0.5] * 5, reward_std=nan, learning_rate=[1e-6] * 5))
    titles = [fix.title for fix in finding.fixes]
    assert any("two or more completions per prompt" in title for title in titles)
    assert not any("learning_rate" in title or "reward function" in title for title in titles)


def test_what_is_nan_before_any_update_is_not_mended_by_a_learning_rate(made: Made) -> None:
    (finding,) = findings(made(loss=[math.nan] * 5, reward=[0.5] * 5, reward_std=[0.2] * 5, learning_rate=[1e-3] * 5))
    assert not any("learning_rate" in fix.title for fix in finding.fixes)
