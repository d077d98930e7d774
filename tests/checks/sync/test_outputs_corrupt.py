"""RLD404: no numbers, or one token over and over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rldoctor_checks.sync.outputs_corrupt import check

from rldoctor.api import Case, Outcome
from rldoctor.judge import judge_one
from tests.logs.asking import finding as logged
from tests.logs.asking import findings as log_findings
from tests.logs.asking import raised
from tests.observations import completion, rollout_case, scenario_case


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_log_probability_that_is_no_number(value: str) -> None:
    rows = [completion([1, 2, 3]), completion([4, 5], value, index=1)]
    (finding,) = judge_one(check, rollout_case(completions=rows)).findings
    assert finding.message.startswith("2 of 5 log-probabilities")
    assert finding.evidence[0].text == f"group, completion 1, token 0: {value}"


def test_one_token_over_and_over() -> None:
    rows = [completion([0] * 16, index=i) for i in range(8)]
    (finding,) = judge_one(check, rollout_case(completions=rows)).findings
    assert finding.message.startswith("all 8 sampled completions")
    assert finding.message.endswith("repeat token 0")


@pytest.mark.parametrize(
    "rows",
    [
        [completion([0] * 16, -0.001, index=i) for i in range(8)],
        [completion([0] * 3, index=i) for i in range(8)],
        [completion([0] * 16), completion([1] * 16)],
        [completion([0] * 16, temperature=0.0, request="greedy")],
        [{**completion([1, 2, 3]), "logprobs": [None, None, None]}],
    ],
    ids=["as sure as it says", "too short", "two tokens", "greedy", "no log-probabilities"],
)
def test_what_has_a_reason_or_is_not_reported(rows: list[dict[str, object]]) -> None:
    assert judge_one(check, rollout_case(completions=rows)).outcome is Outcome.PASS


def test_finite_numbers_are_no_pass_where_nothing_could_be_compared() -> None:
    why = "transformers could not be loaded: ImportError: libtorch.so"
    unread = dict.fromkeys(("settings", "trainer", "long", "pairs"), why)
    sampled = scenario_case("sampling", unread=unread)
    case = replace(
        rollout_case(), observations={**rollout_case().observations, "sampling": sampled.observations["sampling"]}
    )
    assert judge_one(check, rollout_case()).outcome is Outcome.PASS
    result = judge_one(check, case)
    assert result.outcome is Outcome.NOT_CHECKED and str(result.reason).startswith(f"{why}; ")


def test_fixes_follow_the_engine() -> None:
    engine = {"attention_backend": "FLASH_ATTN", "enforce_eager": False, "dtype": "float16"}
    (finding,) = judge_one(check, rollout_case(completions=[completion([1], "nan")], engine=engine)).findings
    options = {edit.option for fix in finding.fixes for edit in fix.edits}
    assert options == {"engine.enforce_eager", "engine.dtype"}


@pytest.mark.engine
def test_a_healthy_engine(rollout: Callable[..., Case]) -> None:
    assert judge_one(check, rollout()).outcome is Outcome.PASS


@pytest.mark.engine
def test_an_engine_with_a_layer_of_nan(rollout: Callable[..., Case]) -> None:
    result = judge_one(check, rollout("nan_layer"))
    assert result.outcome is Outcome.FINDINGS
    assert "no finite numbers" in result.findings[0].message


@pytest.mark.engine
def test_an_engine_that_answers_with_one_token(rollout: Callable[..., Case]) -> None:
    (finding, *_) = judge_one(check, rollout("one_token")).findings
    assert "repeat token 0" in finding.message


def test_sampling_that_met_no_probabilities() -> None:
    text = "probability tensor contains either `inf`, `nan` or element < 0"
    assert "logits are NaN or infinite" in logged(check, raised("RuntimeError", text)).message
    assert log_findings(check, raised("RuntimeError", "selected index k out of range")) == []


def test_a_log_probability_that_is_none() -> None:
    # https://github.com/huggingface/trl/pull/6266
    place, said = "trl/trainer/grpo_trainer.py _generate", "Could not infer dtype of NoneType"
    text = raised(
        "RuntimeError", said, place, code="logps = [torch.tensor(logprobs, device=device) for logprobs in all]"
    )
    assert "log-probability that is no number" in logged(check, text).message
    assert log_findings(check, raised("RuntimeError", said, place, code="torch.tensor(rewards)")) == []
