"""RLD201: chunked prefill asked of a V0 engine, answers longer than the context, and what its scheduler asserts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rldoctor_checks.rollout.chunked_prefill import check

from rldoctor.api import Applicability, Outcome, Severity
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.logs.asking import finding, findings, raised
from tests.plans import case, edits, judged

RECORDED = Path(__file__).parents[2] / "probes" / "scenarios" / "recorded" / "v0_chunked_prefill.json"
SCHEDULER = "/opt/venv/lib/python3.11/site-packages/vllm/core/scheduler.py _schedule_running"
STARTED = "INFO 11-20 20:51:48 [executor_base.py:118] Maximum concurrency for 128 tokens per request: 16384.00x\n"


def test_a_stopped_sequence_that_was_left_behind() -> None:
    # https://github.com/hiyouga/EasyR1/issues/79
    text = raised("AssertionError", "", SCHEDULER, code="assert len(self._async_stopped) == 0")
    found = finding(check, text)
    options = [edit.option for fix in found.fixes for edit in fix.edits]
    assert "engine.enable_chunked_prefill" in options
    assert "min_tokens" in found.fixes[0].title


def test_an_image_cut_by_a_scheduler_step() -> None:
    # https://github.com/hiyouga/EasyR1/issues/83
    text = raised("ValueError", "Attempted to assign 4607 + 4607 = 9214 multimodal tokens to 8407 placeholders")
    assert "9214 multimodal tokens for 8407 placeholders" in finding(check, text).message


def test_another_assertion_of_the_scheduler() -> None:
    assert findings(check, raised("AssertionError", "", SCHEDULER, code="assert budget.can_schedule()")) == []


V0 = {"vllm": "0.7.3"}


def test_a_launch_that_asks_a_v0_engine_to_chunk() -> None:
    result = judged(
        check,
        versions=V0,
        engine__enable_chunked_prefill=True,
        engine__max_num_batched_tokens=8192,
        engine__max_model_len=8192,
    )
    (found,) = result.findings
    assert found.severity is Severity.WARNING
    assert found.fixes[0].applicability is Applicability.SAFE
    assert edits(result)[0] == {"engine.enable_chunked_prefill": False}


def test_switching_it_off_brings_the_budget_that_the_engine_then_needs() -> None:
    result = judged(
        check,
        versions=V0,
        engine__enable_chunked_prefill=True,
        engine__max_num_batched_tokens=2048,
        engine__max_model_len=8192,
    )
    assert edits(result)[0] == {"engine.enable_chunked_prefill": False, "engine.max_num_batched_tokens": 8192}


def test_v1_and_a_launch_that_leaves_it_off_are_quiet() -> None:
    for versions, asked in (({"vllm": "0.8.5"}, True), ({"vllm": "0.11.0"}, True), (V0, False)):
        result = judged(check, versions=versions, engine__enable_chunked_prefill=asked, engine__max_model_len=8192)
        assert result.outcome is Outcome.PASS


def test_an_engine_that_came_up_as_v0_goes_before_what_its_release_does_unasked() -> None:
    """Whatever chose it: a wrapper, a site's own start-up file. On the CPU it is not the launch's engine."""
    launch = case(versions={"vllm": "0.9.1"}, engine__enable_chunked_prefill=True, engine__max_model_len=8192)
    engine = json.loads(RECORDED.read_text())["observations"]["turns"]["threads"]["records"]["engine"]

    def booted(device: str) -> CheckResult:
        job = {"ended": "done", "records": {"engine": {**engine, "device": device}}}
        return judge_one(check, replace(launch, observations={"rollout": {"miniature": job}}))

    assert engine["engine"] == "V0"
    assert "for a V0 engine (a V0 engine came up)" in booted("cuda").findings[0].message
    assert not booted("cpu").findings and not judge_one(check, launch).findings


def test_min_tokens_beyond_what_the_context_leaves_on_v0() -> None:
    lengths = {"sampling__min_tokens": 512, "lengths__prompt": 1024, "engine__max_model_len": 1280}
    assert "min_tokens 512 after a prompt of 1024" in judged(check, versions=V0, **lengths).findings[0].message
    assert {"engine.enable_chunked_prefill": False} in edits(judged(check, versions=V0, **lengths))
    without = judged(check, versions=V0, engine__enable_chunked_prefill=False, **lengths)
    assert {"engine.enable_chunked_prefill": False} not in edits(without), "it is off already"
    assert judged(check, versions={"vllm": "0.11.0"}, **lengths).outcome is Outcome.PASS
    assert judged(check, versions=V0, **{**lengths, "engine__max_model_len": 2048}).outcome is Outcome.PASS
