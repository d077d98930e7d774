"""RLD311: sampled and yet the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rldoctor_checks.devices.completions_identical import check

from rldoctor.api import Case, Outcome
from rldoctor.judge import judge_one
from tests.checks.launches import LaunchFile
from tests.observations import completion, rollout_case

WORDS = list(range(16))


@pytest.mark.parametrize(
    ("words", "greedy"),
    [
        ("rollout.n=8 actor_rollout_ref.rollout.temperature=0", True),
        ("rollout.n=8 actor_rollout_ref.rollout.top_k=1", True),
        ("rollout.n=8 actor_rollout_ref.rollout.temperature=0 actor_rollout_ref.rollout.top_k=1", True),  # once
        ("rollout.n=8 actor_rollout_ref.rollout.temperature=0 trainer.val_only=True", False),
        ("rollout.n=8 actor_rollout_ref.rollout.temperature=0.6", False),
        ("rollout.n=1 actor_rollout_ref.rollout.temperature=0", False),
        ("rollout.n=8 actor_rollout_ref.rollout.val_kwargs.temperature=0", False),
    ],
)
def test_a_launch_whose_groups_are_sampled_greedily(tmp_path: Path, words: str, greedy: bool) -> None:
    text = f"python3 -m verl.trainer.main_ppo actor_rollout_ref.{words}\n"
    found = LaunchFile(tmp_path, text, {"verl": "0.7.0"}).findings(check)
    assert [finding.evidence[0].line for finding in found] == ([1] if greedy else [])
    assert all("the most likely token each time" in finding.message for finding in found)


def test_a_group_in_which_nothing_differs() -> None:
    (finding,) = judge_one(check, rollout_case(completions=[completion(WORDS, index=i) for i in range(8)])).findings
    assert finding.message.startswith("all 8 completions sampled at temperature 1.0 by vLLM 0.11.0 V1")
    assert "log-probability -64.0 of the first, -448 that all others repeat it" in finding.evidence[1].text


def test_engines_that_share_a_fault_give_one_finding() -> None:
    one = rollout_case(completions=[completion(WORDS, index=i) for i in range(8)])
    jobs = dict.fromkeys(("miniature", "pressed", "first replica"), one.observations["rollout"]["miniature"])
    (finding,) = judge_one(check, replace(one, observations={"rollout": jobs})).findings
    assert finding.message.endswith("are the same; seen 3 times in all")
    assert len(finding.evidence) == 3  # equal lines stand there once


@pytest.mark.parametrize(
    "rows",
    [
        [completion(WORDS), completion([*WORDS[:-1], 99])],
        [completion([7], -0.01, index=i) for i in range(8)],
        [completion(WORDS, -0.02, index=i) for i in range(8)],
        [completion(WORDS, temperature=0.0, request=name) for name in ("greedy", "greedy twin")],
        [completion(WORDS, seed=1, index=i) for i in range(8)],
        [completion(WORDS)],
    ],
    ids=[
        "one token differs",
        "a sure single token",
        "a peaked distribution",
        "greedy",
        "a seed each",
        "a group of one",
    ],
)
def test_sameness_that_has_a_reason(rows: list[dict[str, object]]) -> None:
    assert judge_one(check, rollout_case(completions=rows)).findings == ()


def test_without_a_sampled_group_there_is_no_pass() -> None:
    for rows in ([completion(WORDS, temperature=0.0)], [completion(WORDS)]):
        result = judge_one(check, rollout_case(completions=rows))
        assert result.outcome is Outcome.NOT_CHECKED
        assert "the rollout sampled no group of several completions" in str(result.reason)


def test_corrupt_outputs_are_left_to_their_own_code() -> None:
    same = [completion([0] * 16, index=i) for i in range(8)]
    assert judge_one(check, rollout_case(completions=same)).findings == ()


def test_a_rollout_without_completions_is_unknown() -> None:
    result = judge_one(check, rollout_case("died", completions=None, stage="boot"))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "stage boot" in str(result.reason)


@pytest.mark.engine
def test_a_healthy_engine_samples_different_completions(rollout: Callable[..., Case]) -> None:
    result = judge_one(check, rollout())
    assert result.outcome is Outcome.PASS
    assert "8 of 8 completions" in str(result.reason)


@pytest.mark.engine
def test_a_sampler_without_noise(rollout: Callable[..., Case]) -> None:
    (first, *_) = judge_one(check, rollout("constant_noise")).findings
    assert first.message.startswith("all 8 completions sampled at temperature 1.0")
