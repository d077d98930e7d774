"""RLD213: the engine's log-probabilities as the loss takes them."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.logprobs import check

from rldoctor.api import Outcome, Severity
from tests.logs.asking import finding, findings, raised
from tests.plans import edits, judged

CORRECTED = {"rollout__importance_correction": True, "rollout__engine_logprobs": True}
NEW = {"vllm": "0.11.0"}


def test_raw_log_probabilities_at_another_temperature() -> None:
    # https://github.com/PrimeIntellect-ai/prime-rl/pull/697
    result = judged(check, framework="TRL", versions=NEW, sampling__temperature=0.6, **CORRECTED)
    assert "leave out temperature 0.6" in result.findings[0].message
    assert edits(result)[0] == {"engine.logprobs_mode": "processed_logprobs"}


def test_truncation_counts_too() -> None:
    result = judged(check, framework="TRL", versions=NEW, sampling__temperature=1.0, sampling__top_p=0.9, **CORRECTED)
    assert "top_p 0.9" in result.findings[0].message


def test_quiet_at_temperature_1_in_the_processed_mode_and_on_v0() -> None:
    assert judged(check, versions=NEW, sampling__temperature=1.0, **CORRECTED).outcome is Outcome.PASS
    processed = {"engine__logprobs_mode": "processed_logprobs", "sampling__temperature": 0.6}
    assert judged(check, versions=NEW, **processed, **CORRECTED).outcome is Outcome.PASS
    old = judged(check, versions={"vllm": "0.7.3"}, sampling__temperature=0.6, **CORRECTED)
    assert old.outcome is Outcome.PASS


def test_quiet_where_the_loss_does_not_use_them() -> None:
    assert judged(check, versions=NEW, sampling__temperature=0.6).findings == ()


def test_a_server_that_another_launch_starts_is_not_judged() -> None:
    settings = {"placement__mode": "server", "sampling__temperature": 0.6}
    result = judged(check, framework="TRL", versions=NEW, **settings, **CORRECTED)
    assert result.findings == ()
    assert result.reason is not None and "started elsewhere" in result.reason


def test_verls_own_default_is_the_processed_mode() -> None:
    newest = {"vllm": "0.12.0", "verl": "0.10.0.dev0"}
    assert judged(check, versions=newest, sampling__temperature=0.6, **CORRECTED).outcome is not Outcome.FINDINGS


def test_a_trainer_at_another_temperature() -> None:
    result = judged(check, framework="TRL", sampling__temperature=0.7, trainer__temperature=1.0)
    assert result.findings[0].severity is Severity.WARNING
    assert judged(check, framework="TRL", sampling__temperature=0.7, trainer__temperature=0.7).outcome is Outcome.PASS


def test_a_correction_without_its_input() -> None:
    settings = {"rollout__importance_correction": True, "rollout__engine_logprobs": False}
    assert edits(judged(check, **settings)) == [{"rollout.engine_logprobs": True}]


def test_more_than_the_engine_gives() -> None:
    assert edits(judged(check, sampling__logprobs=50, engine__max_logprobs=20)) == [{"engine.max_logprobs": 50}]
    assert judged(check, sampling__logprobs=20, engine__max_logprobs=20).outcome is Outcome.PASS
    assert judged(check, sampling__logprobs=50, engine__max_logprobs=-1).outcome is Outcome.PASS


@pytest.mark.parametrize("is_is", ["which is greater", "which is is greater"])
def test_too_many_in_a_log(is_is: str) -> None:
    # vLLM 0.8.5 and 0.10.2, v1/engine/processor.py
    text = raised("ValueError", f"Requested sample logprobs of 50, {is_is} than max allowed: 20")
    assert finding(check, text).fixes[0].edits[0].value == 50


def test_a_correction_that_misses_its_input_in_a_log() -> None:
    text = raised(
        "ValueError", "bypass_mode=True requires rollout_log_probs in batch. Ensure rollout worker is configured"
    )
    assert finding(check, text).fixes[0].edits[0].option == "rollout.engine_logprobs"
    assert findings(check, raised("KeyError", "'log_probs'")) == []
