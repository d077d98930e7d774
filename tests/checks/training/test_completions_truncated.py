"""RLD503 fires where nearly all completions end at the limit, as loudly as the run is long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rldoctor.api import Case, Finding, Severity
from rldoctor.judge import judge_one
from rldoctor.logs.triage import triage_text
from tests.loaded import REGISTRY
from tests.plans import case as planned

check = REGISTRY.checks["RLD503"]
Logged = Callable[[str], Case]
Made = Callable[..., Case]


def findings(case: Case) -> tuple[Finding, ...]:
    return judge_one(check, case).findings


def test_a_limit_of_eight_tokens(logged: Logged) -> None:
    (finding,) = findings(logged("trl_short_limit.txt"))
    assert finding.severity is Severity.WARNING and "limit of 8 tokens (6 steps since step 1)" in finding.message
    assert finding.fixes[0].title == "raise the completion limit until most completions end on their own"
    assert finding.fixes[0].edits[0].option == "lengths.response"


def test_verl_with_almost_all_cut_off(logged: Logged) -> None:
    (finding,) = findings(logged("verl_truncated.txt"))
    assert finding.message.startswith("98.4% of the completions")


def test_twenty_steps_are_an_error(made: Made) -> None:
    (finding,) = findings(made(clipped_ratio=[0.97] * 20, completion_length_max=[2048.0] * 20))
    assert finding.severity is Severity.ERROR


def test_two_steps_are_a_note(made: Made) -> None:
    assert [f.severity for f in findings(made(clipped_ratio=[1.0, 1.0]))] == [Severity.NOTE]


def test_lengths_tell_where_no_share_is_logged(made: Made) -> None:
    same = [4096.0] * 6
    assert findings(made(completion_length_max=same, completion_length_mean=same))
    assert findings(made(completion_length_mean=same))


def test_a_mean_that_never_changes_is_a_warning_until_something_says_that_it_is_the_limit(made: Made) -> None:
    same = {"completion_length_mean": [1024.0] * 30}
    (finding,) = findings(made(**same))
    assert finding.severity is Severity.WARNING and "1024 tokens at every step" in finding.message
    known = planned(lengths__response=1024).plan
    (finding,) = findings(replace(made(**same), plan=known))
    assert finding.severity is Severity.ERROR and finding.message.startswith("100.0% of the completions")


def test_a_mean_that_is_no_whole_number_is_no_limit(made: Made) -> None:
    assert findings(made(completion_length_mean=[812.5] * 30)) == ()
    assert findings(made(completion_length_mean=[812.5] * 30, completion_length_max=[812.5] * 30)) == ()


def test_a_mean_below_the_limit_of_the_launch_is_not_cut_off(made: Made) -> None:
    plan = planned(lengths__response=2048).plan
    assert findings(replace(made(completion_length_mean=[812.0] * 30), plan=plan)) == ()


STEP = (
    "step:{n} - critic/rewards/mean:0.{n:02} - response_length/mean:900.0 - response_length/clip_ratio:1.0 "
    "- actor/grad_norm:0.3{n:02}"
)


@pytest.mark.parametrize(
    "end",
    [
        "slurmstepd: error: *** JOB 8812 ON node07 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***",
        "torch.distributed.elastic.agent.server.api: [WARNING] Received 15 death signal, shutting down workers",
    ],
)
def test_what_ended_the_run_comes_before_what_it_did_not_learn(end: str) -> None:
    report = triage_text("\n".join([*(STEP.format(n=n) for n in range(1, 31)), end]) + "\n")
    assert [finding.code for finding in report.findings] == ["RLD603", "RLD503"]


@pytest.mark.parametrize(
    "name",
    [
        "trl_healthy.txt",
        "trl_forty_steps.txt",
        "trl_every_second_step.txt",
        "trl_kl.txt",
        "trl_constant_reward.txt",
        "verl.txt",
        "skyrl.txt",
        "openrlhf.txt",
        "nemo_rl.txt",
        "ms_swift.txt",
    ],
)
def test_other_runs_are_quiet(logged: Logged, name: str) -> None:
    assert findings(logged(name)) == ()


def test_a_smoke_run_that_cuts_most_is_quiet(made: Made) -> None:
    case = made(clipped_ratio=[1.0, 1.0, 0.9375, 0.9375], completion_length_max=[32.0] * 4)
    assert findings(case) == ()


def test_a_run_that_learns_to_stop_is_quiet(made: Made) -> None:
    assert findings(made(clipped_ratio=[1.0] * 40 + [0.9, 0.8, 0.7, 0.5])) == ()


def test_short_answers_of_one_length_are_quiet(made: Made) -> None:
    assert findings(made(completion_length_mean=[3.0] * 6, completion_length_max=[3.0] * 6)) == ()


def test_a_broken_policy_does_not_stop_either(logged: Logged) -> None:
    assert [f.severity for f in findings(logged("trl_rate_10_kl.txt"))] == [Severity.NOTE], "one step before it broke"


def test_a_longer_limit_leaves_room_for_the_prompt(made: Made) -> None:
    limits = {"clipped_ratio": [1.0] * 30, "completion_length_max": [1024.0] * 30}
    plan = planned(engine__max_model_len=3072, lengths__prompt=1024, lengths__response=1024).plan
    (finding,) = findings(replace(made(**limits), plan=plan))
    assert [edit.value for edit in finding.fixes[0].edits] == [2048]
