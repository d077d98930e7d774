"""RLD210: two callers of one engine, as a launch declares them and as a log shows them."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.rollout.engine_shared import check

from rldoctor.api import Outcome
from tests.logs.raising import found, traceback
from tests.plans import edits, judged

ASYNC: dict[str, Any] = {
    "framework": "ms-swift",
    "rollout__async": True,
    "rollout__evaluates": True,
    "placement__mode": "async",
}


def test_swift_samples_and_evaluates_on_one_engine() -> None:
    result = judged(check, versions={"ms-swift": "3.4.1"}, **ASYNC)
    assert "samples in a background thread" in result.findings[0].message
    assert edits(result)[:2] == [{"rollout.async": False}, {"trainer.eval_strategy": "no"}]


def test_without_evaluation_or_with_a_server_they_take_turns() -> None:
    quiet = {**ASYNC, "rollout__evaluates": False}
    assert judged(check, versions={"ms-swift": "3.4.1"}, **quiet).outcome is Outcome.PASS
    assert judged(check, versions={"ms-swift": "3.6.0"}, **ASYNC).findings == ()


# https://github.com/modelscope/ms-swift/issues/3666
def test_the_v0_scheduler_finds_prefills_among_the_running() -> None:
    text = traceback(
        "AssertionError",
        "vllm/core/scheduler.py _schedule_default",
        code="assert len(running_scheduled.prefill_seq_groups) == 0",
    )
    (finding,) = found(check, text)
    assert "two callers drive one V0 engine" in finding.message


def test_several_samples_for_each_prompt_are_no_leftovers() -> None:
    assert found(check, "step 1: 32 outputs for 16 prompts\nDONE\n") == []
    assert found(check, "step 1: 30 outputs for 16 prompts\nDONE\n")
