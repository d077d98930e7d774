"""RLD202: the budget of a scheduler step against the context, as each engine release takes it."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.token_budget import check

from rldoctor.api import Outcome
from tests.logs.asking import finding, findings, raised
from tests.plans import edits, judged

SHORT = {"engine__max_num_batched_tokens": 8192, "engine__max_model_len": 10240}


def test_fires_on_v0_with_chunked_prefill_off() -> None:
    result = judged(check, versions={"vllm": "0.7.3"}, engine__enable_chunked_prefill=False, **SHORT)
    assert result.outcome is Outcome.FINDINGS
    assert "8192 is below max_model_len 10240" in result.findings[0].message
    assert {"engine.max_num_batched_tokens": 10240} in edits(result)
    assert [e.line for e in result.findings[0].evidence] == [7, 7, 7]


def test_fires_on_v0_that_leaves_chunking_to_its_default() -> None:
    assert judged(check, versions={"vllm": "0.7.3"}, **SHORT).outcome is Outcome.FINDINGS


def test_a_v0_engine_chunks_by_itself_above_32768() -> None:
    result = judged(check, versions={"vllm": "0.7.3"}, engine__max_num_batched_tokens=8192, engine__max_model_len=40960)
    assert result.outcome is Outcome.PASS
    assert result.reason is not None and "above" not in result.reason.split(":")[0]


def test_v1_up_to_0_11_0_chunks_whatever_it_is_asked() -> None:
    for version in ("0.8.5", "0.9.1", "0.10.2", "0.11.0"):
        result = judged(check, versions={"vllm": version}, engine__enable_chunked_prefill=False, **SHORT)
        assert result.outcome is Outcome.PASS, version


def test_later_v1_honours_the_switch() -> None:
    for version in ("0.11.2", "0.12.0", "0.32.0+cpu"):
        result = judged(check, versions={"vllm": version}, engine__enable_chunked_prefill=False, **SHORT)
        assert result.outcome is Outcome.FINDINGS, version
        assert {"engine.enable_chunked_prefill": True} in edits(result)


def test_v0_asked_for_by_its_variable_or_by_an_old_device() -> None:
    by_variable = judged(check, versions={"vllm": "0.8.5"}, env__VLLM_USE_V1="0", **SHORT)
    assert by_variable.outcome is Outcome.FINDINGS
    assert {"env.VLLM_USE_V1": "1"} in edits(by_variable)
    assert judged(check, environment={"VLLM_USE_V1": "0"}, **SHORT).outcome is Outcome.FINDINGS
    assert judged(check, capability="7.5", **SHORT).outcome is Outcome.FINDINGS
    assert judged(check, capability="8.0", **SHORT).outcome is Outcome.PASS


def test_a_budget_below_the_number_of_sequences() -> None:
    result = judged(check, engine__max_num_batched_tokens=512, engine__max_model_len=512, engine__max_num_seqs=1024)
    assert result.outcome is Outcome.FINDINGS
    assert edits(result) == [{"engine.max_num_seqs": 512}]


def test_a_version_that_is_none_is_not_judged() -> None:
    result = judged(check, versions={"vllm": "nightly"}, engine__enable_chunked_prefill=False, **SHORT)
    assert result.outcome is Outcome.NOT_CHECKED


def test_a_budget_that_holds_the_context_is_quiet() -> None:
    result = judged(
        check,
        versions={"vllm": "0.7.3"},
        engine__max_num_batched_tokens=10240,
        engine__max_model_len=10240,
        engine__enable_chunked_prefill=False,
    )
    assert result.outcome is Outcome.PASS


def test_easyr1_wants_the_sum_chunked_or_not() -> None:
    lengths = {"lengths__prompt": 4096, "lengths__response": 8192, "engine__enable_chunked_prefill": True}
    result = judged(check, framework="EasyR1", engine__max_num_batched_tokens=8192, **lengths)
    assert "EasyR1 refuses a budget below prompt plus response" in result.findings[0].message
    assert {"engine.max_num_batched_tokens": 12288} in edits(result)
    quiet = judged(check, framework="EasyR1", engine__max_num_batched_tokens=12288, **lengths)
    assert quiet.outcome is Outcome.PASS


def test_verls_synchronous_rollout_refuses_where_prefill_is_chunked() -> None:
    settings = {**SHORT, "engine__enable_chunked_prefill": True, "rollout__async_engine": False}
    for version, outcome in (("0.3.0.post1", Outcome.FINDINGS), ("0.6.1", Outcome.FINDINGS), ("0.7.0", Outcome.PASS)):
        result = judged(check, versions={"vllm": "0.8.5", "verl": version}, **settings)
        assert result.outcome is outcome, version
    off = {**settings, "rollout__async_engine": True}
    assert judged(check, versions={"vllm": "0.8.5", "verl": "0.6.1"}, **off).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("message", "option"),
    [
        # https://github.com/verl-project/verl/pull/259
        (
            "max_num_batched_tokens (8192) is smaller than max_model_len (9216). This effectively limits the maximum "
            "sequence "
            "length to max_num_batched_tokens and makes vLLM reject longer sequences.",
            "engine.enable_chunked_prefill",
        ),
        # verl 0.5.0, vllm_rollout_spmd.py
        (
            "Enable chunked prefill, max_num_batched_tokens is smaller than max_model_len,                            "
            "  "
            "please increase max_num_batched_tokens or disable chunked prefill",
            "engine.enable_chunked_prefill",
        ),
    ],
)
def test_refusals_in_a_log(message: str, option: str) -> None:
    found = finding(check, raised("ValueError", message))
    assert option in [edit.option for fix in found.fixes for edit in fix.edits]


def test_the_numbers_of_a_log_are_the_fix() -> None:
    message = (
        "max_num_batched_tokens (8192) is smaller than max_model_len (131072). This effectively limits the maximum "
        "sequence "
        "length to max_num_batched_tokens and makes vLLM reject longer sequences."
    )
    edit = finding(check, raised("ValueError", message)).fixes[0].edits[0]
    assert (edit.option, edit.value) == ("engine.max_num_batched_tokens", 131072)


def test_a_healthy_line_about_chunked_prefill() -> None:
    line = "INFO 11-20 [config.py:2015] Chunked prefill is enabled with max_num_batched_tokens=8192.\n"
    assert findings(check, line) == []
