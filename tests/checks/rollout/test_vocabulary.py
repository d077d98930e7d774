"""RLD216: token ids beyond the embedding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor_checks.rollout.vocabulary import check

from rldoctor.api import Outcome, Severity
from rldoctor.api.facts import ModelFiles
from rldoctor.api.results import CheckResult
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


def ends(config: object, generation: object = None, rows: int = 512) -> CheckResult:
    reported = None if generation is None else {"eos_token_id": generation}
    model = ModelFiles(path="m", config={"vocab_size": rows, "eos_token_id": config}, generation_config=reported)
    return judge_one(check, replace(case(), model=model))


# Phi-3's configuration class names 32000 where config.json names nothing; vLLM 0.32 raised IndexError with min_tokens.
def test_an_end_of_sequence_without_a_row() -> None:
    (finding,) = ends(32000).findings
    assert finding.severity is Severity.ERROR
    assert "config.json names eos_token_id 32000, and the embedding has 512 rows" in finding.message
    (one_of,) = ends(2, [2, 512]).findings
    assert one_of.severity is Severity.WARNING and "generation_config.json names eos_token_id 512" in one_of.message


def test_ends_of_sequence_within_the_embedding() -> None:
    assert ends(511).outcome is Outcome.PASS
    assert ends(32000, [2, 3]).outcome is Outcome.PASS  # generation_config.json decides
    assert ends(None).outcome is Outcome.NOT_CHECKED


def test_padding_is_no_finding() -> None:
    assert judged(rows=152064, last=151664).findings == ()


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


def test_a_gather_on_the_device_that_asserts() -> None:
    kernel = "at::native::vectorized_gather_kernel<16, long>"
    asserts = (
        f"/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:16: {kernel}: block: [3,0,0], thread: [0,0,0] Assertion "
        '`ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds"` failed.\n'
    )
    failed = traceback("RuntimeError: CUDA error: device-side assert triggered", "user/train.py step")
    (finding,) = found(check, asserts + failed)
    assert finding.message.startswith("an embedding is indexed beyond its rows")
    # A profiler's table.
    assert found(check, f"{kernel}   0.00%   0.000us   1.2%   3.1ms   128\n" + failed) == []
