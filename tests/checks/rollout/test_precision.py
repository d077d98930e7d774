"""RLD218: precisions and quantizations that an engine, a model or a device does not take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rldoctor_checks.rollout.precision import check

from rldoctor.api import Outcome
from rldoctor.judge import judge_one
from tests.logs.asking import finding, findings, raised
from tests.plans import QWEN2_7B, case, edits, judged

BRAIN = {**QWEN2_7B, "torch_dtype": "bfloat16"}


def test_bfloat16_before_ampere() -> None:
    result = judged(check, capability="7.0", engine__dtype="bfloat16")
    assert edits(result) == [{"engine.dtype": "float16"}]
    assert judged(check, capability="8.0", engine__dtype="bfloat16").findings == ()
    assert judged(check, engine__dtype="bfloat16").outcome is Outcome.NOT_CHECKED


def test_auto_is_the_models_precision_until_vllm_asks_the_device() -> None:
    auto = {"capability": "7.5", "config": BRAIN, "engine__dtype": "auto"}
    assert judged(check, versions={"vllm": "0.8.5"}, **auto).outcome is Outcome.FINDINGS
    assert judged(check, versions={"vllm": "0.9.1"}, **auto).outcome is Outcome.PASS


def test_families_that_overflow_in_float16() -> None:
    gemma = {"config": {**QWEN2_7B, "model_type": "gemma2"}, "capability": "8.0", "engine__dtype": "half"}
    assert edits(judged(check, versions={"vllm": "0.10.2"}, **gemma)) == [{"engine.dtype": "bfloat16"}]
    assert judged(check, versions={"vllm": "0.8.5"}, **gemma).outcome is Outcome.PASS


def test_a_method_whose_kernels_take_float16_alone() -> None:
    settings = {"capability": "8.0", "engine__dtype": "bfloat16"}
    assert edits(judged(check, engine__quantization="gptq", **settings)) == [{"engine.dtype": "float16"}]
    assert judged(check, engine__quantization="gptq_marlin", **settings).findings == ()


def test_a_method_without_kernels_for_the_device() -> None:
    old = {"capability": "7.5", "engine__dtype": "float16", "engine__quantization": "fp8"}
    assert "needs compute capability 8.0" in judged(check, versions={"vllm": "0.10.2"}, **old).findings[0].message
    assert judged(check, versions={"vllm": "0.20.0"}, **old).findings == ()


def test_a_method_that_the_checkpoint_was_not_made_with() -> None:
    made = {**QWEN2_7B, "quantization_config": {"quant_method": "awq"}}
    settings = {"config": made, "capability": "8.0", "engine__dtype": "float16"}
    assert edits(judged(check, engine__quantization="gptq", **settings)) == [{"engine.quantization": "awq"}]
    assert judged(check, engine__quantization="awq_marlin", **settings).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("asked", "config", "files", "refused"),
    [
        ("awq", QWEN2_7B, ["config.json", "model.safetensors"], True),
        ("gptq_marlin", QWEN2_7B, ["config.json", "quant_config.json"], True),
        ("awq", QWEN2_7B, ["config.json", "quant_config.json"], False),  # where the method's tools write it
        ("gptq", {**QWEN2_7B, "quantization_config": {"quant_method": "gptq"}}, ["config.json"], False),
        ("fp8", QWEN2_7B, ["config.json"], False),  # quantizes while it loads
        ("bitsandbytes", QWEN2_7B, ["config.json"], False),
        ("awq", QWEN2_7B, [], False),  # what lies there is not known
    ],
)
def test_a_method_for_a_checkpoint_that_is_not_quantized(
    asked: str, config: dict[str, object], files: list[str], refused: bool
) -> None:
    plain = case(config=config, engine__quantization=asked, engine__dtype="float16")
    assert plain.model is not None
    model = replace(plain.model, files=dict.fromkeys(files, 1))
    found = judge_one(check, replace(plain, model=model)).findings
    assert [("is not quantized" in one.message) for one in found] == [True] * refused


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        # vLLM 0.10.2, platforms/cuda.py and config
        (
            "ValueError",
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla V100-SXM2-32GB "
            "GPU has "
            "compute capability 7.0. You can use float16 instead",
            "Tesla V100-SXM2-32GB has compute capability 7.0",
        ),
        (
            "ValueError",
            "The model type 'gemma2' does not support float16. Reason: Numerical instability.",
            "gemma2 in float16",
        ),
        (
            "ValueError",
            "torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]",
            "awq has no kernels for torch.bfloat16",
        ),
        (
            "ValueError",
            "Quantization method specified in the model config (awq) does not match the quantization method specified "
            "in the "
            "`quantization` argument (gptq).",
            "made with awq, quantization gptq is asked for",
        ),
        (
            "NotImplementedError",
            "FlashAttention does not support fp8 kv-cache on this device.",
            "no 8-bit floating point",
        ),
        ("RuntimeError", "FlashAttention only support fp16 and bf16 data type", "gets float32"),
        (
            "RuntimeError",
            "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
            "differ in precision: Float and BFloat16",
        ),
        ("RuntimeError", "expected scalar type Float but found BFloat16", "differ in precision: BFloat16 and Float"),
    ],
)
def test_refusals_in_a_log(kind: str, message: str, said: str) -> None:
    assert said in finding(check, raised(kind, message)).message


def test_scales_that_deepgemm_does_not_know() -> None:
    # https://github.com/vllm-project/vllm/issues/51884
    error = "Assertion error (/deepgemm-src/csrc/apis/layout.hpp:60): Unknown SF transformation"
    assert finding(check, raised("RuntimeError", error)).fixes[0].edits[0].option == "env.VLLM_USE_DEEP_GEMM"


def test_a_precision_that_the_engine_has_no_name_for() -> None:
    result = judged(check, capability="9.0", engine__dtype="float8")
    assert result.findings[0].message.startswith("vLLM knows no dtype float8")
    assert edits(result) == [{"engine.dtype": "bfloat16"}]
    for known in ("bfloat16", "torch.bfloat16", "half", "auto", "float32"):
        assert judged(check, capability="9.0", engine__dtype=known).outcome is not Outcome.FINDINGS


def test_two_types_in_one_product() -> None:
    error = "expected mat1 and mat2 to have the same dtype, but got: float != c10::BFloat16"
    found = finding(check, raised("RuntimeError", error, "torch/nn/modules/linear.py forward"))
    assert found.message.endswith("differ in precision: float and c10::BFloat16")
    shapes = "mat1 and mat2 shapes cannot be multiplied (4x8 and 16x8)"
    assert findings(check, raised("RuntimeError", shapes, "torch/nn/modules/linear.py forward")) == []
    index = "expected scalar type Long but found Int"
    assert findings(check, raised("RuntimeError", index, "torch/nn/modules/sparse.py forward")) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            "Selected backend AttentionBackendEnum.ROCM_ATTN is not valid for this configuration. Reason: "
            "['attention sinks not supported']",
            "the attention backend ROCM_ATTN cannot serve this model here: ['attention sinks not supported']",
        ),
        (
            "No valid attention backend found for cuda with Config(head_size=80, kind=torch.float32). "
            "Reasons: {FLASH_ATTN: [dtype not supported]}.",
            "no attention backend can serve this model on cuda: {FLASH_ATTN: [dtype not supported]}.",
        ),
    ],
)
def test_attention_backends_that_cannot(said: str, found: str) -> None:
    assert finding(check, raised("ValueError", said)).message == found


def test_attention_sinks_on_a_gpu_without_flashattention_3() -> None:
    # https://github.com/vllm-project/vllm/issues/22331
    sinks = finding(check, raised("AssertionError", "Sinks are only supported in FlashAttention 3"))
    assert [edit.value for fix in sinks.fixes for edit in fix.edits] == ["TRITON_ATTN"]
