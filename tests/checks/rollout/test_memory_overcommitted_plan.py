"""RLD206 on a launch file: what must stand on one device, phase by phase."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.memory_overcommitted import check
from rldoctor_checks.rollout.memory_overcommitted.fixes import smaller_micro_batches

from rldoctor.api import Case, Outcome, Severity
from rldoctor.api.facts import Gpu, Gpus, ModelFiles
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.checks.launches import LaunchFile
from tests.plans import QWEN2_7B, case, edits

FULL_7B = {**QWEN2_7B, "tie_word_embeddings": False}
COLOCATED: dict[str, Any] = {
    "placement__mode": "colocate",
    "placement__trainer_gpus": 4,
    "engine__max_model_len": 6144,
    "lora__enabled": False,
    "sleep__enabled": False,
    "sleep__level": 0,
}
ZERO2: dict[str, Any] = {"trainer__strategy": "deepspeed", "trainer__zero_stage": 2, "trainer__deepspeed": "zero2"}
LOGITS: dict[str, Any] = {
    "placement__mode": "server",
    "placement__trainer_gpus": 8,
    "trainer__strategy": "deepspeed",
    "trainer__zero_stage": 3,
    "batch__per_device": 16,
    "lengths__response": 16384,
    "lora__enabled": False,
}


def planned(gib: int = 80, framework: str = "ms-swift", vllm: str = "0.8.5", gpus: int = 1, **settings: Any) -> Case:
    asked = case(framework, versions={"vllm": vllm}, config=FULL_7B, **settings)
    devices = tuple(Gpu(index=index, name="GPU", memory_total=gib << 30) for index in range(gpus))
    return replace(asked, gpus=Gpus(vendor="nvidia", devices=devices))


def judged(gib: int = 80, **settings: Any) -> CheckResult:
    return judge_one(check, planned(gib, **settings))


def test_a_share_of_0_9_that_never_sleeps_beside_a_full_training() -> None:
    result = judged(engine__gpu_memory_utilization=0.9, **COLOCATED, **ZERO2)
    (finding,) = result.findings
    assert finding.severity is Severity.ERROR
    assert "update phase needs at least 93.3 GiB on a device of 80.0 GiB" in finding.message
    table = [e.text for e in finding.evidence if e.source == "memory plan of one device"]
    assert table[0] == "update: engine's share 68.0 GiB (0.9 of 80.0 GiB, less 4 for activations)"
    assert table[2] == "update: optimizer states 21.3 GiB (deepspeed ZeRO-2, 4 ranks)"


def test_the_safe_fix_is_a_smaller_share() -> None:
    first = edits(judged(engine__gpu_memory_utilization=0.9, **COLOCATED, **ZERO2))[0]
    assert set(first) == {"engine.gpu_memory_utilization"}
    share = first["engine.gpu_memory_utilization"]
    assert judged(engine__gpu_memory_utilization=share, **COLOCATED, **ZERO2).outcome is Outcome.PASS


def test_where_no_share_is_small_enough_the_trainers_states_are_sharded_too() -> None:
    settings: dict[str, Any] = {
        **COLOCATED,
        **ZERO2,
        "trainer__reference": True,
        "lengths__response": 4096,
        "batch__per_device": 4,
    }
    settings["trainer__logits_chunked"] = False
    first = edits(judged(engine__gpu_memory_utilization=0.9, **settings))[0]
    assert set(first) == {"engine.gpu_memory_utilization", "trainer.deepspeed"}
    after: dict[str, Any] = {**settings, "trainer__zero_stage": 3, "trainer__deepspeed": "zero3"}
    share = first["engine.gpu_memory_utilization"]
    assert judged(engine__gpu_memory_utilization=share, **after).outcome is Outcome.PASS


def test_adapters_leave_room_for_the_same_share() -> None:
    settings: dict[str, Any] = {**COLOCATED, **ZERO2, "lora__enabled": True}
    assert judged(engine__gpu_memory_utilization=0.9, **settings).outcome is Outcome.PASS


def test_an_engine_that_sleeps_is_counted_in_the_rollout_alone() -> None:
    asleep: dict[str, Any] = {**COLOCATED, "sleep__enabled": True, "sleep__level": 1}
    fsdp: dict[str, Any] = {"trainer__strategy": "fsdp", "trainer__param_dtype": "float32"}
    quiet = judged(framework="verl", vllm="0.11.0", engine__gpu_memory_utilization=0.6, **asleep, **fsdp)
    assert quiet.outcome is Outcome.PASS
    # 72 GiB of the engine, and 12 bytes for each parameter on 4 devices that nobody offloads.
    result = judged(framework="verl", vllm="0.11.0", engine__gpu_memory_utilization=0.9, **asleep, **fsdp)
    assert "the rollout phase needs" in result.findings[0].message
    away: dict[str, Any] = {**fsdp, "trainer__offload_params": True, "trainer__offload_optimizer": True}
    moved = judged(framework="verl", vllm="0.11.0", engine__gpu_memory_utilization=0.9, **asleep, **away)
    assert moved.outcome is Outcome.PASS


def test_before_0_9_the_share_holds_what_was_on_the_device_at_its_start() -> None:
    ddp: dict[str, Any] = {
        **COLOCATED,
        "trainer__strategy": "ddp",
        "trainer__optimizer": "adafactor",
        "trainer__reference": True,
    }
    share: dict[str, Any] = {"engine__gpu_memory_utilization": 0.75}
    assert judged(vllm="0.8.5", **share, **ddp).outcome is Outcome.PASS
    assert judged(vllm="0.9.2", **share, **ddp).outcome is Outcome.FINDINGS


def test_a_trainer_of_its_own_devices() -> None:
    alone: dict[str, Any] = {"placement__mode": "server", "placement__trainer_gpus": 1, "lora__enabled": False}
    result = judged(framework="TRL", trainer__strategy="single", model__dtype="float32", **alone)
    assert result.findings[0].severity is Severity.ERROR
    eight: dict[str, Any] = {**alone, "placement__trainer_gpus": 8}
    quiet = judged(framework="TRL", trainer__strategy="deepspeed", trainer__zero_stage=3, **eight)
    assert quiet.findings == ()


def test_what_is_near_the_border_is_a_warning_with_the_numbers() -> None:
    alone: dict[str, Any] = {"placement__mode": "server", "placement__trainer_gpus": 8, "lora__enabled": False}
    zero: dict[str, Any] = {**alone, "trainer__strategy": "deepspeed", "trainer__zero_stage": 2}
    # At least 27.1 GiB: weights, their share of gradients and optimizer states, one CUDA context.
    severities = {}
    for gib in (24, 26, 28, 30):
        found = judged(gib, framework="TRL", **zero).findings
        severities[gib] = found[0].severity if found else None
    assert severities == {24: Severity.ERROR, 26: Severity.WARNING, 28: Severity.WARNING, 30: None}
    (near,) = judged(28, framework="TRL", **zero).findings
    assert "27.1 GiB on a device of 28.0 GiB, within 5% of the border, and activations come on top" in near.message


def test_logits_at_half_of_the_longest_responses_are_a_warning() -> None:
    (finding,) = judged(framework="TRL", trainer__logits_chunked=False, **LOGITS).findings
    assert finding.severity is Severity.WARNING
    assert judged(framework="TRL", trainer__logits_chunked=True, **LOGITS).findings == ()


def test_logits_are_counted_in_32_bits_where_the_trainer_converts_them() -> None:
    (converted,) = judged(framework="OpenRLHF", trainer__logits_chunked=False, **LOGITS).findings
    (as_they_are,) = judged(framework="TRL", trainer__logits_chunked=False, **LOGITS).findings
    sizes = [next(e.text for e in f.evidence if "logits" in e.text) for f in (converted, as_they_are)]
    assert "148.5 GiB" in sizes[0] and "74.2 GiB" in sizes[1]


def test_activations_that_are_not_computed_again_are_a_warning() -> None:
    launch: dict[str, Any] = {"framework": "NeMo-RL", **LOGITS, "trainer__strategy": "fsdp2"}
    (finding,) = judged(trainer__gradient_checkpointing=False, **launch).findings
    assert finding.severity is Severity.WARNING and "half as long as they may" in finding.message
    assert any("activations" in e.text and "no gradient checkpointing" in e.text for e in finding.evidence)
    assert {"trainer.gradient_checkpointing": True} in edits(judged(trainer__gradient_checkpointing=False, **launch))
    for quiet in ({"trainer__gradient_checkpointing": True}, {"batch__dynamic": True}, {}):
        assert judged(**{**launch, **quiet}).findings == ()


@pytest.mark.parametrize(("strategy", "found"), [("ddp", True), ("fsdp", False), ("fsdp2", False)])
def test_fsdp_may_have_activations_computed_again_by_an_option_of_its_own(strategy: str, found: bool) -> None:
    # fsdp_config.activation_checkpointing, which transformers demands in place of the trainer's gradient_checkpointing
    launch: dict[str, Any] = {"framework": "TRL", **LOGITS, "trainer__strategy": strategy}
    findings = judged(trainer__gradient_checkpointing=False, trainer__logits_chunked=True, **launch).findings
    assert any("activations" in e.text for f in findings for e in f.evidence if "no gradient" in e.text) is found


@pytest.mark.parametrize(
    ("launched", "wanted"),
    [
        ({"batch__accumulation": 2}, {"batch.per_device": 8, "batch.accumulation": 4}),
        # The ranks together would hold half a group.
        ({"batch__accumulation": 2, "batch__generations": 64, "process__total": 4}, {}),
        (
            {"batch__accumulation": 2, "batch__generations": 8, "process__total": 4},
            {"batch.per_device": 8, "batch.accumulation": 4},
        ),
    ],
)
def test_half_of_the_micro_batch_that_holds_these_logits(launched: dict[str, Any], wanted: dict[str, object]) -> None:
    (finding,) = judged(**{"framework": "TRL", "trainer__logits_chunked": False, **LOGITS, **launched}).findings
    smaller = next(fix for fix in finding.fixes if fix.title.startswith(("smaller micro", "fewer tokens")))
    assert {edit.option: edit.value for edit in smaller.edits} == wanted


@pytest.mark.parametrize(("total", "wanted"), [(8192, [16384]), (20480, [20480]), (32768, [])])
def test_fewer_tokens_at_a_time_still_hold_one_whole_sequence(total: int, wanted: list[int]) -> None:
    settings: dict[str, Any] = {"batch__dynamic": True, "batch__tokens_per_device": 32768, "lengths__total": total}
    fixes = smaller_micro_batches("verl", planned(framework="verl", **settings).plan, "update")
    assert [edit.value for fix in fixes for edit in fix.edits] == wanted


VERL_PPO = """python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=gae data.train_batch_size=512 data.max_prompt_length=1024 data.max_response_length=1024 \\
    actor_rollout_ref.model.path=model critic.model.path={critic} actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5 actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    critic.model.fsdp_config.param_offload={away} critic.model.fsdp_config.optimizer_offload={away} \\
    trainer.n_gpus_per_node=4 trainer.nnodes=1
"""


@pytest.mark.parametrize(
    ("critic", "away", "gib", "told"),
    [
        ("model", False, 46, True),
        ("model", True, 46, False),
        ("model", False, 80, False),
        ("another", False, 46, False),  # how large that is is not known
    ],
)
def test_a_value_model_stays_beside_the_policy(tmp_path: Path, critic: str, away: bool, gib: int, told: bool) -> None:
    script = VERL_PPO.format(critic=critic, away=away)
    launch = LaunchFile(tmp_path, script, {"verl": "0.5.0", "vllm": "0.8.5"}, gpus=4)
    devices = tuple(Gpu(index=index, name="GPU", memory_total=gib << 30) for index in range(4))
    (one,) = launch.cases()
    known = replace(one, model=ModelFiles(path="model", config=FULL_7B), gpus=Gpus(vendor="nvidia", devices=devices))
    found = judge_one(check, known).findings
    assert [one.severity for one in found] == [Severity.ERROR] * told
    if told:
        assert any("value model 21.3 GiB" in one.text for one in found[0].evidence)
        mended = {edit.option for edit in found[0].fixes[0].edits}
        assert mended >= {"trainer.critic_offload_params", "trainer.critic_offload_optimizer"}


def test_weights_beyond_the_device() -> None:
    result = judged(8, framework="vLLM", engine__gpu_memory_utilization=0.9, engine__tensor_parallel_size=1)
    assert "weights take 14.2 GiB" in result.findings[0].message


def test_weights_are_spread_only_over_devices_that_are_there() -> None:
    settings: dict[str, Any] = {"engine__gpu_memory_utilization": 0.9, "engine__tensor_parallel_size": 1}
    assert edits(judged(5, gpus=4, framework="vLLM", **settings)) == [{"engine.tensor_parallel_size": 4}]
    alone = judged(8, gpus=1, framework="vLLM", **settings).findings[0]
    assert not any(fix.edits for fix in alone.fixes)
    assert alone.fixes[0].title.startswith("2 such devices")
    six = judged(8, gpus=6, framework="vLLM", **settings)  # 28 heads: neither 3 nor 6 ranks
    assert edits(six) == [{"engine.tensor_parallel_size": 2}]


def test_a_share_of_the_whole_device() -> None:
    # https://github.com/vllm-project/vllm/issues/17939
    for version, severity in (("0.8.5", Severity.WARNING), ("0.9.1", Severity.ERROR)):
        result = judged(framework="vLLM", vllm=version, engine__gpu_memory_utilization=1.0)
        assert result.findings[0].severity is severity
        assert edits(result) == [{"engine.gpu_memory_utilization": 0.9}]


def test_a_plan_that_leaves_its_strategy_open_is_not_judged() -> None:
    result = judged(engine__gpu_memory_utilization=0.9, **COLOCATED)
    assert result.findings == ()
    assert result.reason is not None and "how the trainer spreads its states" in result.reason


def test_unsloths_trainer_and_engine_share_the_weights() -> None:
    settings: dict[str, Any] = {
        **COLOCATED,
        "placement__trainer_gpus": 1,
        "lora__enabled": True,
    }
    result = judged(24, framework="unsloth", vllm="0.10.2", engine__gpu_memory_utilization=0.9, **settings)
    assert result.outcome is Outcome.PASS
    other = judged(24, framework="TRL", vllm="0.10.2", engine__gpu_memory_utilization=0.9, **settings)
    assert other.outcome is Outcome.FINDINGS


@pytest.mark.parametrize(("devices", "share", "fires"), [("1,2", 0.9, True), ("2,3", 0.9, False), ("1,2", 0.05, False)])
def test_servers_of_one_file_on_one_device(tmp_path: Path, devices: str, share: float, fires: bool) -> None:
    serve = "CUDA_VISIBLE_DEVICES={} vllm serve ./m --port {} -tp 2 --gpu-memory-utilization {} &\n"
    text = serve.format("0,1", 8000, 0.9) + serve.format(devices, 8001, share)
    found = LaunchFile(tmp_path, text, {"vllm": "0.10.2"}).findings(check)
    assert any("still running in the background, takes 0.9 of device 1" in f.message for f in found) == fires


RUN = """CUDA_VISIBLE_DEVICES={devices} python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=./m \\
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization={share} \\
  trainer.nnodes=1 trainer.n_gpus_per_node={used} {end}
"""


@pytest.mark.parametrize(
    ("first", "second", "before", "fires"),
    [
        ({}, {}, "", True),
        ({"end": ""}, {}, "", False),  # one after the other
        ({}, {"devices": "2,3"}, "", False),
        ({"share": 0.4}, {"share": 0.5}, "", False),
        ({"used": 1}, {}, "", False),  # which of its two devices is not known
        ({}, {}, "ray start --head --num-gpus 4\n", False),  # a Ray that both join gives each its own
    ],
)
def test_two_runs_of_one_file_on_the_same_devices(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], before: str, fires: bool
) -> None:
    usual: dict[str, Any] = {"devices": "0,1", "share": 0.6, "used": 2, "end": "&"}
    text = before + RUN.format(**{**usual, **first}) + RUN.format(**{**usual, **second}) + "wait\n"
    found = LaunchFile(tmp_path, text, {"vllm": "0.11.0", "verl": "0.6.1"}).findings(check)
    assert any("takes 0.6 of device 0, and this one wants 0.6" in f.message for f in found) == fires


@pytest.mark.parametrize("strategy", ["mindspeed", "veomni", "torchtitan"])
def test_a_strategy_that_spreads_states_in_a_way_of_its_own(strategy: str) -> None:
    whole = {**COLOCATED, "trainer__strategy": strategy, "engine__gpu_memory_utilization": 0.5}
    result = judged(24, **whole)
    assert result.outcome is Outcome.NOT_CHECKED and f"how {strategy} spreads" in (result.reason or "")
    assert judged(24, **whole | {"trainer__strategy": "ddp"}).findings
