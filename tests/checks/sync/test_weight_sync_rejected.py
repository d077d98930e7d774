"""RLD401: weights that the engine does not take."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.sync.weight_sync_rejected import check

from rldoctor.api import Severity
from tests.checks.launches import finding, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised
from tests.logs.raising import traceback

QLORA: dict[str, Any] = {"model__quantization": "4bit", "placement__mode": "colocate", "lora__enabled": True}
SYNC = (
    "/opt/venv/lib/python3.10/site-packages/verl/workers/sharding_manager/fsdp_vllm.py update_params",
    "/opt/venv/lib/python3.10/site-packages/vllm/model_executor/models/llama.py load_weights",
)


def test_packed_weights_before_the_engine_is_reported() -> None:
    # https://github.com/huggingface/trl/issues/3466
    found = finding(check, version="0.18.0", **QLORA)
    assert found.severity is Severity.WARNING and "trl>=0.26" in found.fixes[0].commands[0]
    assert quiet(check, version="0.26.0", **QLORA)
    assert finding(check, "ms-swift", version="3.12.6", **QLORA)
    assert quiet(check, "ms-swift", version="4.1.0", **QLORA)


def test_adapters_alone_and_other_placements() -> None:
    assert quiet(check, "ms-swift", version="3.12.6", **QLORA, engine__enable_lora=True)
    assert quiet(check, version="0.18.0", **{**QLORA, "model__quantization": "8bit"})
    assert quiet(check, version="0.18.0", **{**QLORA, "placement__mode": "none"})
    assert quiet(check, "unsloth", version="2025.11.6", **QLORA)


def test_pefts_names() -> None:
    # vLLM 0.32 on a CPU, weights sent under their PEFT names
    text = raised(
        "Exception",
        "Call to collective_rpc method failed: Worker failed with error 'There is no module or parameter named "
        "'base_model' in Qwen2ForCausalLM. The available parameters belonging to  (Qwen2ForCausalLM) are: {...}'",
    )
    assert "has no parameter 'base_model': PEFT's names were sent" in logged(check, text).message


@pytest.mark.parametrize("key", ["embed_tokens.weight", "layers.0.self_attn.qkv_proj.base_layer.weight"])
def test_a_key_that_the_model_lacks(key: str) -> None:
    # https://github.com/verl-project/verl/issues/2160, https://github.com/TIGER-AI-Lab/verl-tool/issues/125
    assert key in logged(check, raised("KeyError", repr(key), *SYNC)).message


@pytest.mark.parametrize("said", ["{key}", "Worker failed with error '{key}', please check the stack trace above"])
def test_a_key_as_the_engines_client_repeats_it(said: str) -> None:
    # vllm/v1/engine/core.py and vllm/v1/executor/multiproc_executor.py of 0.32
    text = "Call to collective_rpc method failed: " + said.format(key="'model.layers.0.self_attn.qkv_proj.weight'")
    assert (
        "has no parameter 'model.layers.0.self_attn.qkv_proj.weight'"
        in logged(check, raised("Exception", text)).message
    )
    other = "Call to collective_rpc method failed: " + said.format(key="'answer'")
    assert findings(check, raised("Exception", other)) == []


@pytest.mark.parametrize("key", ["layers.1.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts.down_proj"])
def test_experts_in_one_tensor(key: str) -> None:
    # vLLM 0.32 with a DeepSeek-V2 of transformers 5.19; https://github.com/verl-project/verl/pull/6896
    finding = logged(check, raised("KeyError", repr(key), *SYNC))
    assert key in finding.message and "each expert separately" in finding.fixes[0].title
    unnamed = f"There is no module or parameter named '{key}' in MixtralModel"
    assert "each expert separately" in logged(check, raised("ValueError", unnamed, *SYNC)).fixes[0].title


def test_a_key_of_the_users_data_is_not_this() -> None:
    assert findings(check, raised("KeyError", "'answer'", *SYNC)) == []
    assert findings(check, raised("KeyError", "'embed_tokens.weight'", "/home/user/rl/reward.py reward")) == []


def test_the_engines_own_loading_is_not_sync() -> None:
    load = "/opt/venv/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py load_model"
    assert findings(check, raised("KeyError", "'model.norm.weight'", load, SYNC[1])) == []
    text = "There is no module or parameter named 'lm_head' in Qwen2ForCausalLM"
    assert findings(check, raised("ValueError", text, load)) == []


def test_shapes_that_differ() -> None:
    # https://github.com/verl-project/verl/issues/834
    text = "Attempted to load weight (torch.Size([3600])) into parameter (torch.Size([3584]))"
    found = logged(check, raised("AssertionError", text))
    assert "shape [3600] do not fit the engine's parameter of shape [3584]" in found.message
    load = "/opt/venv/lib/python3.11/site-packages/vllm/model_executor/model_loader/default_loader.py load_weights"
    assert findings(check, raised("AssertionError", text, load)) == []


def test_a_bare_assertion_of_a_layer() -> None:
    # https://github.com/modelscope/ms-swift/issues/6884
    code = "assert param_data.shape == loaded_weight.shape"
    linear = "/opt/venv/lib/python3.11/site-packages/vllm/model_executor/layers/linear.py weight_loader"
    assert "another shape" in logged(check, raised("AssertionError", "", *SYNC, linear, code=code)).message
    load = "/opt/venv/lib/python3.11/site-packages/vllm/v1/worker/gpu_model_runner.py load_model"
    assert findings(check, raised("AssertionError", "", load, SYNC[1], linear, code=code)) == []


def test_updates_that_overlap() -> None:
    # https://github.com/NovaSky-AI/SkyRL/issues/1605
    text = "start_weight_update called while a weight update is already active. Call finish_weight_update first."
    assert "two weight updates overlap" in logged(check, raised("RuntimeError", text)).message


def test_fp8_scales_of_another_layout() -> None:
    # https://github.com/NVIDIA-NeMo/RL/issues/2081
    text = raised(
        "RuntimeError",
        "The size of tensor a (4) must match the size of tensor b (128) at non-singleton dimension 1",
        "/opt/nemo_rl/models/generation/fp8.py maybe_post_process_fp8_weight_block",
        code="layer.weight_scale.data.copy_(dg_weight_scale)",
    )
    assert "fp8 block scales" in logged(check, text).message


def test_experts_in_blocks() -> None:
    # https://github.com/verl-project/verl/pull/7987
    error = "ValueError: shard_dim=0 is not a valid data dimension for a 3D tensor (expected 1 or 2)"
    assert "expert" in logged(check, traceback(error, "vllm/worker.py update_weights_from_ipc")).message
    assert findings(check, traceback(error, "vllm/model_loader/base_loader.py load_model")) == []


def test_sglangs_layers_and_parameters_that_cannot_be_loaded_again() -> None:
    # https://github.com/sgl-project/sglang/issues/26015, https://github.com/verl-project/verl/pull/6393
    sglang = "/sgl-workspace/sglang/python/sglang/srt"
    text = traceback(
        "AssertionError",
        f"{sglang}/model_executor/model_runner.py update_weights_from_tensor",
        f"{sglang}/layers/linear.py weight_loader",
        code="assert param.size() == loaded_weight.size()",
    )
    assert "another shape than the engine's parameter" in logged(check, text).message
    lost = raised("AttributeError", "'Parameter' object has no attribute 'load_merged_column_weight'", *SYNC)
    assert "laid its weights out anew" in logged(check, lost).message


def test_a_name_like_load_model_is_no_loading_of_a_checkpoint() -> None:
    # https://github.com/verl-project/verl/issues/5479
    layer = "/opt/venv/lib/python3.10/site-packages/vllm/model_executor/layers/fused_moe/layer.py"
    text = raised(
        "RuntimeError",
        "start (480) + length (96) exceeds dimension size (96).",
        *SYNC,
        f"{layer} _load_model_weight_or_group_weight_scale",
    )
    assert "has 96 rows where the engine's rank reads 96 from row 480" in logged(check, text).message
