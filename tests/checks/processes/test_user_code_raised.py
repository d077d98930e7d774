"""RLD902: the user's own code raised."""

from __future__ import annotations

from rldoctor_checks.processes.user_code_raised import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import OUT_OF_MEMORY, REWARD_RAISES, ranked


def test_the_file_the_line_and_the_rank() -> None:
    found = finding(check, ranked(1, REWARD_RAISES))
    assert (
        found.message
        == "KeyError: 'answer' raised by reward at /home/user/rl/train.py:9 during reward, first on rank 1"
    )
    assert [(e.source, e.line) for e in found.evidence] == [("log", 10), ("/home/user/rl/train.py", 9)]


def test_a_frameworks_checkout_beside_the_users_files_is_not_the_users() -> None:
    text = raised("KeyError", "'x'", "/workspace/EasyR1/verl/workers/actor/dp_actor.py update_policy")
    assert findings(check, text) == []
    assert [f.code for f in triage_text(text).findings] == ["RLD900"]


def test_a_known_cause_goes_first() -> None:
    assert [f.code for f in triage_text(OUT_OF_MEMORY).findings] == ["RLD206"]


def test_what_a_reward_function_returned() -> None:
    text = "The reward function 'reward' returned 1 rewards, but 8 were expected (one per prompt-completion pair)."
    found = finding(
        check, raised("ValueError", text, "/x/site-packages/trl/trainer/grpo_trainer.py _calculate_rewards")
    )
    assert found.message == "the reward function 'reward' returned 1 rewards for 8 completions"


def test_a_script_that_does_not_exist() -> None:
    text = "/opt/venv/bin/python: can't open file '/home/user/train.py': [Errno 2] No such file or directory\n"
    assert "can't open file" in finding(check, text).message
