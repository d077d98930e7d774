"""RLD209: ranks against heads, key-value heads and devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rldoctor_checks.rollout.parallelism import check

from rldoctor.api import Outcome
from rldoctor.api.facts import ModelFiles
from rldoctor.judge import judge_one
from tests.checks.launches import LaunchFile
from tests.logs.raising import found, traceback
from tests.plans import QWEN2_7B, edits, judged

QWEN2_1B = {"num_attention_heads": 12, "num_key_value_heads": 2, "intermediate_size": 8960}


def test_heads_that_the_ranks_do_not_divide() -> None:
    result = judged(check, config=QWEN2_1B, engine__tensor_parallel_size=8, placement__engine_gpus=8)
    assert result.findings[0].message == "tensor_parallel_size 8 does not divide the model's 12 attention heads"
    assert edits(result) == [{"engine.tensor_parallel_size": 4}]


def test_more_ranks_than_key_value_heads_share_copies() -> None:
    assert judged(check, config=QWEN2_1B, engine__tensor_parallel_size=4).outcome is Outcome.PASS
    odd = {"num_attention_heads": 24, "num_key_value_heads": 6}
    result = judged(check, config=odd, engine__tensor_parallel_size=4)
    assert result.findings[0].message.endswith("6 key-value heads")


def test_devices_that_hold_no_whole_engine() -> None:
    result = judged(check, engine__tensor_parallel_size=4, placement__engine_gpus=6)
    assert "6 devices cannot be divided into engines of 4" in result.findings[0].message
    assert edits(result) == [{"engine.tensor_parallel_size": 3}]
    assert judged(check, engine__tensor_parallel_size=2, placement__engine_gpus=6).findings == ()


def test_engines_that_fit_the_devices_fit_the_model_too() -> None:
    result = judged(check, config=QWEN2_7B, engine__tensor_parallel_size=4, placement__engine_gpus=6)
    assert edits(result) == [{"engine.tensor_parallel_size": 2}]  # 3 would divide the devices, and not 28 heads


def test_sequence_parallel_ranks_of_the_trainer() -> None:
    result = judged(check, config=QWEN2_7B, parallel__sequence=8)
    assert "sequence parallel size 8" in result.findings[0].message
    assert edits(result) == [{"parallel.sequence": 7}]  # 28 heads
    assert judged(check, config=QWEN2_7B, parallel__sequence=4).outcome is Outcome.PASS


def test_ranks_of_sglang_divide_heads_too() -> None:
    sglang = {"framework": "slime", "rollout__backend": "sglang", "placement__engine_gpus": 8}
    assert edits(judged(check, config=QWEN2_1B, engine__tensor_parallel_size=8, **sglang)) == [
        {"engine.tensor_parallel_size": 4}
    ]


def test_fewer_ranks_divide_heads_and_devices() -> None:
    verl = {"framework": "verl", "trainer__strategy": "fsdp", "placement__trainer_gpus": 8}
    result = judged(check, config=QWEN2_7B, parallel__sequence=8, **verl)
    assert edits(result) == [{"parallel.sequence": 4}]


def test_each_kind_of_rank_may_be_the_one_to_shrink() -> None:
    megatron = {"framework": "verl", "trainer__strategy": "megatron", "placement__trainer_gpus": 8}
    result = judged(check, parallel__tensor=2, parallel__pipeline=3, **megatron)
    assert edits(result) == [{"parallel.pipeline": 2}]


def test_devices_that_hold_no_whole_trainer() -> None:
    separate = {"framework": "NeMo-RL", "placement__trainer_gpus": 2, "parallel__tensor": 4}
    result = judged(check, **separate)
    assert "2 devices cannot be divided into groups of 4 (4 tensor parallel ranks)" in result.findings[0].message
    assert edits(result) == [{"parallel.tensor": 2}]
    assert judged(check, **{**separate, "placement__trainer_gpus": 4}).findings == ()
    sequence = {"parallel__sequence": 16, "placement__trainer_gpus": 8, "trainer__strategy": "fsdp"}
    assert edits(judged(check, framework="verl", **sequence)) == [{"parallel.sequence": 8}]


@pytest.mark.parametrize(
    ("ranks", "release", "outcome"),
    [
        (4, "0.15.0", Outcome.FINDINGS),
        (4, "0.16.0", Outcome.PASS),
        (4, None, Outcome.NOT_CHECKED),
        (2, None, Outcome.PASS),
        (3, "0.16.0", Outcome.FINDINGS),
        (3, None, Outcome.FINDINGS),
    ],
)
def test_megatrons_ranks_share_key_value_heads_from_0_16_on(ranks: int, release: str | None, outcome: Outcome) -> None:
    config = {"num_attention_heads": 12, "num_key_value_heads": 2, "num_hidden_layers": 28}
    megatron = {"framework": "verl", "trainer__strategy": "megatron", "parallel__tensor": ranks}
    installed = {"megatron-core": release} if release else {"vllm": "0.10.0"}
    result = judged(check, config=config, versions=installed, **megatron)
    assert result.outcome is outcome
    assert all("key-value heads" in finding.message for finding in result.findings)


STAGES = (
    "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.model.path=model actor_rollout_ref.actor.megatron.pipeline_model_parallel_size={} {}"
)
CUT = "+actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_last_pipeline_stage"


@pytest.mark.parametrize(
    ("stages", "more", "fires"),
    [
        (3, "", True),
        (4, "", False),
        (3, f"{CUT}=8", False),
        (3, f"{CUT}=null", True),
        (3, f"{CUT}=$LAST", False),
    ],
)
def test_megatrons_stages_divide_the_layers_unless_the_launch_cuts_them(
    stages: int, more: str, fires: bool, tmp_path: Path
) -> None:
    (launch,) = LaunchFile(tmp_path, STAGES.format(stages, more), {"verl": "0.7.0"}).cases()
    found = judge_one(check, replace(launch, model=ModelFiles(path="model", config=QWEN2_7B))).findings
    assert any("stages do not divide" in finding.message for finding in found) == fires


def test_sizes_of_a_trainer_that_does_not_run_are_no_matter() -> None:
    fsdp = {"trainer__strategy": "fsdp2", "parallel__tensor": 3, "placement__trainer_gpus": 4}
    assert judged(check, framework="SkyRL", **fsdp).outcome is not Outcome.FINDINGS


def test_without_a_local_model_the_heads_are_not_checked() -> None:
    assert judged(check, engine__tensor_parallel_size=3).outcome is Outcome.NOT_CHECKED


# vLLM 0.32.0, shared log vllm_tp3_heads; verl fsdp_workers.py (0.4.1); vllm/distributed/utils.py
def test_refusals_in_a_log() -> None:
    heads = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        "  Value error, Total number of attention heads (28) must be divisible by tensor parallel size (8). "
        "[type=value_error]"
    )
    (finding,) = found(check, traceback(heads, "vllm/config/vllm.py f"))
    assert finding.message == "the parallel size does not divide the attention heads (28 by 8)"
    assert finding.fixes[0].edits[0].value == 7
    world = "AssertionError: rollout world_size: 1 is not divisible by infer_tp: 2"
    (finding,) = found(check, traceback(world, "verl/workers/fsdp_workers.py _build_rollout"))
    assert finding.fixes[0].edits[0].value == 1
    (finding,) = found(
        check, traceback("AssertionError: 151936 is not divisible by 6", "vllm/distributed/utils.py divide")
    )
    assert "151936 by 6" in finding.message


def test_batches_are_another_pattern() -> None:
    error = "ValueError: generation_batch_size (6) must be divisible by num_generations (4)."
    assert found(check, traceback(error, "trl/trainer/grpo_config.py __post_init__")) == []


def test_megatrons_world() -> None:
    for by, counted in (
        ("16", " (8 by 16)"),
        ("expert_tensor_model_pipeline_parallel size (16)", " (8 by 16)"),
        ("tensor_model_parallel_size (4) x pipeline_model_parallel_size (4) x context_parallel_size (1)", ""),
    ):
        error = f"RuntimeError: world_size (8) is not divisible by {by}"
        (finding,) = found(check, traceback(error, "megatron/core/parallel_state.py initialize_model_parallel"))
        assert finding.message == f"the parallel size does not divide the ranks{counted}"


def test_ranks_that_the_hybrid_engine_forms_no_group_of() -> None:
    error = "AttributeError: 'DeepSpeedHybridEngine' object has no attribute '{}'"
    engine = "deepspeed/runtime/hybrid_engine.py _generate"
    assert "inference_tp_size" in found(check, traceback(error.format("mp_group"), engine))[0].message
    assert found(check, traceback(error.format("mp_size"), engine)) == []


MEGATRON = {"framework": "verl", "trainer__strategy": "megatron", "placement__trainer_gpus": 8}


# megatron-core 0.13.1, parallel_state.py: experts have the tensor ranks of the rest where nothing else is said
def test_ranks_that_share_megatrons_experts() -> None:
    spread = {**MEGATRON, "parallel__tensor": 4, "parallel__pipeline": 2, "parallel__expert": 2}
    (finding,) = judged(check, **spread, parallel__expert_tensor=None).findings
    assert "groups of 16 that share the experts (2 expert x 4 tensor x 2 pipeline parallel ranks)" in finding.message
    assert judged(check, **spread, parallel__expert_tensor=1).findings == ()
    assert judged(check, **{**spread, "framework": "slime"}, parallel__expert_tensor=None).findings == ()
    # What does not divide without the experts is said once.
    odd = {**spread, "parallel__pipeline": 3}
    (finding,) = judged(check, **odd, parallel__expert_tensor=1).findings
    assert "share the experts" not in finding.message


@pytest.mark.parametrize(("size", "refused"), [(3, True), (4, False), (-1, False), (16, False)])
def test_shard_groups_are_a_mesh_of_the_devices(size: int, refused: bool) -> None:
    result = judged(check, framework="verl", placement__trainer_gpus=8, parallel__fsdp=size)
    assert [("FSDP groups of 3" in one.message) for one in result.findings] == [True] * refused
    if refused:
        assert edits(result) == [{"parallel.fsdp": 2}, {"parallel.fsdp": -1}]


def test_megatrons_ranks_of_ms_swift() -> None:
    ranks = {"placement__trainer_gpus": 8, "parallel__tensor": 2, "parallel__pipeline": 3, "parallel__context": 1}
    result = judged(check, framework="ms-swift", trainer__strategy="megatron", **ranks)
    assert "8 devices cannot be divided into groups of 6" in result.findings[0].message
    assert judged(check, framework="ms-swift", trainer__strategy="deepspeed", **ranks).findings == ()
