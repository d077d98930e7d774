"""RLD214: ranks that vLLM accepts, the engine's limit, and adapters that it does not load."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.lora import check

from rldoctor.api import Outcome
from tests.logs.raising import found, traceback
from tests.plans import edits, judged

SERVED = {"engine__enable_lora": True, "engine__max_lora_rank": 16}


def test_a_size_that_no_release_accepts() -> None:
    result = judged(check, engine__enable_lora=True, engine__max_lora_rank=24)
    assert "does not accept max_lora_rank 24" in result.findings[0].message
    assert edits(result) == [{"engine.max_lora_rank": 32}]


def test_320_came_with_0_8() -> None:
    old = judged(check, versions={"vllm": "0.7.3"}, engine__enable_lora=True, engine__max_lora_rank=320)
    assert old.findings[0].message.endswith("8, 16, 32, 64, 128, 256")
    assert judged(check, engine__enable_lora=True, engine__max_lora_rank=320).outcome is Outcome.PASS


def test_a_rank_above_the_limit() -> None:
    result = judged(check, **SERVED, lora__rank=48)
    assert (
        result.findings[0].message
        == "the adapter's rank 48 is above the engine's max_lora_rank 16: the engine refuses it"
    )
    assert edits(result)[0] == {"engine.max_lora_rank": 64}


def test_sglang_takes_any_limit_and_no_rank_above_it() -> None:
    sglang = {"engine__enable_lora": True, "rollout__backend": "sglang", "lora__dora": True}
    assert judged(check, **sglang, engine__max_lora_rank=24, lora__rank=24).findings == ()
    result = judged(check, **sglang, engine__max_lora_rank=8, lora__rank=24)
    assert "rank 24 is above the engine's max_lora_rank 8" in result.findings[0].message
    assert edits(result)[0] == {"engine.max_lora_rank": 24}


def test_merged_adapters_and_engines_without_adapters_are_not_judged() -> None:
    for settings in ({"lora__merged": True, "engine__enable_lora": True}, {"engine__enable_lora": False}):
        result = judged(check, **settings, lora__rank=48, engine__max_lora_rank=24)
        assert result.findings == ()


def test_dora_is_not_served() -> None:
    result = judged(check, **SERVED, lora__rank=16, lora__dora=True)
    assert result.findings[0].message == "vLLM does not support DoRA adapters"
    assert judged(check, **SERVED, lora__rank=16, lora__dora=False).outcome is Outcome.PASS


# vllm/lora/peft_helper.py (0.10.2): the same words on V0 and V1.
def test_the_engine_refuses_a_rank() -> None:
    (finding,) = found(
        check, traceback("ValueError: LoRA rank 64 is greater than max_lora_rank 16.", "vllm/lora/x.py f")
    )
    assert "rank 64" in finding.message
    assert finding.fixes[0].edits[0].value == 64


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: max_lora_rank (24) must be one of (8, 16, 32, 64, 128, 256, 320, 512).",  # 0.10.2
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for LoRAConfig\nmax_lora_rank\n"
        "  Input should be 1, 8, 16, 32, 64, 128, 256, 320 or 512 [type=literal_error, input_value=24, input_type=int]",
    ],
    ids=["0.10.2", "0.32.0"],
)
def test_the_engine_refuses_a_size(error: str) -> None:
    (finding,) = found(check, traceback(error, "vllm/config/lora.py f"))
    assert finding.message == "vLLM does not accept max_lora_rank 24"
    assert finding.fixes[0].edits[0].value == 32


def test_the_same_words_in_a_completion_are_quiet() -> None:
    assert found(check, "completion: 'LoRA rank 64 is greater than max_lora_rank 16.'\nDONE\n") == []


def test_an_adapter_on_a_layer_that_it_does_not_fit() -> None:
    # https://github.com/vllm-project/vllm/issues/28640
    code = "assert inputs.size(1) == lora_a_weights[0].size(-1)"
    log = traceback("AssertionError", "vllm/lora/ops/triton_ops/lora_shrink_op.py _lora_shrink", code=code)
    (only,) = found(check, log)
    assert "does not fit" in only.message


@pytest.mark.parametrize(
    ("said", "found_in"),
    [
        ("LoRA serving currently doesn't support adapters that add tokens to the vocabulary", "tokens of its own"),
        ("No suitable kernel. h_in=8 h_out=64256 dtype=Float out_dtype=BFloat16", "shape or precision"),
    ],
)
def test_adapters_that_engines_have_no_kernel_or_no_tokens_for(said: str, found_in: str) -> None:
    # https://github.com/sgl-project/sglang/pull/14105, https://github.com/vllm-project/vllm/pull/1804
    (finding,) = found(check, traceback(f"RuntimeError: {said}", "sglang/srt/lora/lora_manager.py load"))
    assert found_in in finding.message


def test_a_path_without_an_adapter() -> None:
    # https://github.com/vllm-project/vllm/issues/5105
    error = "FileNotFoundError: [Errno 2] No such file or directory: '/data/adapters/late/adapter_config.json'"
    (finding,) = found(
        check, traceback(error, "vllm/lora/models.py from_local_checkpoint", code="open(lora_config_path)")
    )
    assert finding.message == "no adapter is at /data/adapters/late"
    # Who looks whether a folder has an adapter, and goes on with the whole model, says the same.
    reads = "transformers/models/auto/auto_factory.py from_pretrained"
    assert found(check, f"{error}: not an adapter\n" + traceback("KeyError: 'answer'", reads)) == []


def test_modules_that_take_no_adapter() -> None:
    # https://github.com/hiyouga/LlamaFactory/issues/6373
    said = (
        "Target module ModuleDict( (default): Identity() ) is not supported. Currently, only the following modules are "
        "supported: `torch.nn.Linear`."
    )
    (only,) = found(check, traceback(f"ValueError: {said}", "peft/tuners/lora/model.py _create_new_module"))
    assert "q_proj" in only.fixes[0].title
