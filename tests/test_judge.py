"""What a finding rests on is in its first sentence: the numbers that nobody gave."""

from __future__ import annotations

import pytest

from rldoctor.judge import with_defaults
from rldoctor.model import Evidence, Finding, Grade, Severity
from tests.checks.launches import LaunchFile
from tests.loaded import REGISTRY


def finding(message: str, *evidence: str, grade: Grade = Grade.DECLARED) -> Finding:
    lines = tuple(Evidence(text=text) for text in evidence)
    return Finding(
        code="RLD211", name="batch-indivisible", severity=Severity.ERROR, grade=grade, message=message, evidence=lines
    )


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (finding("3 is too few. More.", "n = 3 (default)", "m = 1"), "3 is too few (by default: n = 3). More."),
        (finding("a", *(f"{n} = 1 (default)" for n in "abcd")), "a (by default: a = 1, b = 1, c = 1 ...)"),
        (finding("a", "steps = None (default)"), "a"),
        (finding("given", "n = 3"), "given"),
        (finding("the default n is 3", "n = 3 (default)"), "the default n is 3"),
        (finding("seen", "n = 3 (default)", grade=Grade.OBSERVED), "seen"),
    ],
)
def test_the_first_sentence_names_defaults(found: Finding, message: str) -> None:
    assert with_defaults(found).message == message


def test_a_launch_that_names_no_group_size(tmp_path: object) -> None:
    text = (
        "python3 -m verl.trainer.main_ppo data.train_batch_size=128 actor_rollout_ref.actor.ppo_mini_batch_size=32 "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8 trainer.nnodes=1 "
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 actor_rollout_ref.model.path=m\n"
    )
    file = LaunchFile(tmp_path, text, {"verl": "0.7.0", "vllm": "0.12.0"})  # type: ignore[arg-type]
    messages = [found.message for found in file.findings(REGISTRY.checks["RLD211"])]
    assert any("(by default: actor_rollout_ref.rollout.n = 1" in message for message in messages), messages
