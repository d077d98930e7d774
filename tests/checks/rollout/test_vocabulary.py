"""RLD216: token ids beyond the embedding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor_checks.rollout.vocabulary import check

from rldoctor.api import CheckResult, ModelFiles, Outcome
from rldoctor.judge import judge_one
from tests.logs.raising import found, traceback
from tests.plans import case


def judged(rows: int, last: int) -> CheckResult:
    tokenizer: dict[str, Any] = {"added_tokens_decoder": {"5": {"content": "<s>"}, str(last): {"content": "<tool>"}}}
    model = ModelFiles(path="model", config={"vocab_size": rows}, tokenizer_config=tokenizer)
    return judge_one(check, replace(case(), model=model))


def test_a_tokenizer_that_was_extended_without_the_model() -> None:
    (finding,) = judged(rows=32000, last=32000).findings
    assert "token 32000 '<tool>', the embedding 32000 rows" in finding.message


def test_padding_is_no_finding() -> None:
    assert judged(rows=152064, last=151664).outcome is Outcome.PASS


# https://github.com/vllm-project/vllm/issues/13175
def test_an_id_from_the_padding_is_refused() -> None:
    (finding,) = found(
        check, traceback("ValueError: Token id 151791 is out of vocabulary", "vllm/v1/engine/processor.py f")
    )
    assert "token id 151791" in finding.message and "padding" in finding.message


# https://github.com/vllm-project/vllm/issues/26797
def test_an_id_that_is_no_id() -> None:
    error = "ValueError: Token id 5279552648203111001 is out of vocabulary"
    (finding,) = found(check, traceback(error, "vllm/v1/engine/processor.py f"))
    assert "no id at all" in finding.message


def test_an_index_error_elsewhere_is_quiet() -> None:
    assert found(check, traceback("IndexError: index out of range in self", "torch/x.py select")) == []
    assert found(check, traceback("IndexError: index out of range in self", "torch/nn/functional.py embedding"))
