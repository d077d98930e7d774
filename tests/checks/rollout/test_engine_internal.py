"""RLD220: assertions inside the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor_checks.rollout.engine_internal import check

from rldoctor.judge import judge_one
from tests.logs.raising import found, traceback
from tests.observations import scenario_case


# https://github.com/vllm-project/vllm/issues/30142
def test_asynchronous_scheduling_lost_count() -> None:
    text = traceback(
        "AssertionError",
        "vllm/v1/core/sched/async_scheduler.py _update_request_with_output",
        code="assert request.num_output_placeholders >= 0",
    )
    (finding,) = found(check, text)
    assert "asynchronous scheduling lost count" in finding.message
    assert finding.fixes[0].edits[0].option == "engine.async_scheduling"


def test_the_multimodal_cache() -> None:
    error = "AssertionError: Expected a cached item for mm_hash='abc'"
    (finding,) = found(check, traceback(error, "vllm/multimodal/cache.py get_and_update_item"))
    assert finding.fixes[0].edits[0].value == 0


def test_the_same_assertion_in_the_users_code_is_quiet() -> None:
    assert found(check, traceback("AssertionError", "mylib/x.py f", code="assert num_new_tokens > 0")) == []


def test_an_assertion_of_the_scheduler_that_no_row_names() -> None:
    # https://github.com/vllm-project/vllm/issues/43884
    code = "assert num_locally_computed_tokens % self.block_size == 0"
    connector = "vllm/distributed/kv_transfer/kv_connector/v1/offloading_connector.py update_state_after_alloc"
    (finding,) = found(check, traceback("AssertionError", connector, code=code))
    assert "that is not known: assert num_locally" in finding.message
    assert found(check, traceback("AssertionError", "vllm/model_executor/layers/linear.py weight_loader")) == []
    assert found(check, traceback("AssertionError: told", "vllm/v1/core/sched/scheduler.py schedule")) == []


def test_requests_that_two_engines_mix_up_alike_are_one_finding() -> None:
    answer: dict[str, Any] = {
        "token_ids": [5] * 9,
        "logprobs": [],
        "tops": [],
        "finish_reason": None,
        "wrong_prompt": False,
    }
    answer.update(aborted=True, aborted_at=4)
    trace: dict[str, Any] = {"answers": {"request 4": answer}, "strangers": [], "twice": [], "steps": 40}
    case = scenario_case("chunked_prefill", trace={**trace, "preemptions": 0})
    (job,) = case.observations["chunked_prefill"].values()
    (finding,) = judge_one(check, replace(case, observations={"chunked_prefill": {"on": job, "off": job}})).findings
    assert "aborted after 4 tokens, went on to 9" in finding.evidence[0].text
