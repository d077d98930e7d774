"""The arithmetic of a device's memory, against published sizes."""

from __future__ import annotations

import pytest

from rldoctor.knowledge.memory import Training, activations, cache, parameters, states, weight_element
from tests.plans import QWEN2_7B

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
QWEN3_30B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 48,
    "tie_word_embeddings": False,
    "vocab_size": 151936,
}
DEEPSEEK_V2_LITE = {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_hidden_layers": 27,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "tie_word_embeddings": False,
    "vocab_size": 102400,
}


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        # The model cards' own numbers: 8.03, 7.62, 30.5, 15.7.
        (LLAMA_8B, 8.03),
        ({**QWEN2_7B, "tie_word_embeddings": False}, 7.61),
        (QWEN3_30B, 30.5),
        (DEEPSEEK_V2_LITE, 15.7),
        ({"model_type": "qwen2_5_vl", "text_config": LLAMA_8B}, 8.03),
    ],
)
def test_parameters_are_those_of_the_model_card(config: dict[str, object], billions: float) -> None:
    count = parameters(config)
    assert count is not None
    assert count / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_config_without_a_shape_tells_nothing() -> None:
    assert parameters({"model_type": "llama"}) is None
    assert cache({"model_type": "llama"}, 2) is None


def test_kv_cache_of_grouped_heads_is_divided_as_long_as_there_are_heads() -> None:
    one, two, sixteen = (cache(LLAMA_8B, 2, tensor=ranks) for ranks in (1, 2, 16))
    assert one and two and sixteen
    assert one.full == 2 * 32 * 8 * 128 * 2  # 128 KiB for each token
    assert two.full == one.full / 2
    assert sixteen.full == one.full / 8  # copies of a head are kept


def test_latent_attention_keeps_one_vector_for_all_heads() -> None:
    found = cache(DEEPSEEK_V2_LITE, 2, tensor=8)
    assert found and found.full == 27 * (512 + 64) * 2


def test_layers_with_a_window_or_another_state_keep_less() -> None:
    layered = {**LLAMA_8B, "sliding_window": 1024, "layer_types": ["sliding_attention"] * 24 + ["full_attention"] * 8}
    found = cache(layered, 2)
    assert found and found.window == 1024
    assert found.bytes(8192) == found.full * 8192 + found.windowed * 1024
    assert found.tokens(found.bytes(8192)) == 8192
    hybrid = cache({**LLAMA_8B, "layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8}, 2)
    assert hybrid and hybrid.full == 8 * 2 * 8 * 128 * 2
    unused = cache({**QWEN2_7B, "sliding_window": 131072, "use_sliding_window": False}, 2)
    assert unused and not unused.windowed
    assert cache({**LLAMA_8B, "model_type": "mamba2"}, 2) is None


def test_weights_in_fewer_bits() -> None:
    assert weight_element({}, "auto", None) == 2
    assert weight_element({}, "float32", None) == 4
    assert weight_element({"quantization_config": {"quant_method": "fp8"}}, "auto", None) == 1
    assert weight_element({}, "auto", "awq") == 0.5


def test_states_as_zero_shards_them() -> None:
    # The table of https://arxiv.org/abs/1910.02054: 16 bytes for each parameter in all, of which 2, 2 and 12.
    def each(stage: int) -> tuple[float, float, float]:
        found = states(Training(parameters=8, strategy="deepspeed", ranks=4, zero_stage=stage))
        return found.weights / 8, found.gradients / 8, found.optimizer / 8

    assert each(0) == (2, 2, 12)
    assert each(1) == (2, 2, 3)
    assert each(2) == (2, 0.5, 3)
    assert each(3) == (0.5, 0.5, 3)


def test_states_of_other_trainers() -> None:
    fsdp = states(Training(parameters=8, strategy="fsdp", ranks=8, element=4.0))
    assert fsdp.total == 16
    ddp = states(Training(parameters=8, strategy="ddp", ranks=8))
    assert ddp.total == 8 * (2 + 2 + 4)
    megatron = states(Training(parameters=8, strategy="megatron", ranks=8, model_ranks=4))
    assert (megatron.weights, megatron.gradients, megatron.optimizer) == (4, 4, 8 / 4 * 12 / 2)


def test_adapters_and_offloading_leave_little() -> None:
    frozen = states(Training(parameters=8, strategy="ddp", ranks=2, adapters=True, frozen_element=0.5))
    assert frozen.total == 4
    away = Training(
        parameters=8, strategy="fsdp", ranks=2, reference=True, weights_offloaded=True, optimizer_offloaded=True
    )
    assert states(away).resting == 0


def test_activations_of_a_token() -> None:
    # 32 layers of 4 x 4096 + 2 x 4096 + 2 x 1024 + 4 x 14336 numbers of 16 bits.
    assert activations(LLAMA_8B) == 2 * 32 * (4 * 4096 + 2 * 4096 + 2 * 1024 + 4 * 14336)
    assert activations(LLAMA_8B, adapters=True) < activations(LLAMA_8B)  # type: ignore[operator]
    # Of 128 experts the 8 that a token is sent to.
    chosen = activations({**QWEN3_30B, "num_experts_per_tok": 8})
    assert chosen == 2 * 48 * (4 * 2048 + 2 * 32 * 128 + 2 * 4 * 128 + 4 * 8 * 768)
    assert activations({"hidden_size": 64}) is None
