"""ROLL: one section for each role, devices as Python text, the engine's own words under strategy_config."""

from __future__ import annotations

import pytest

from rldoctor.frameworks.roll.dialect import devices
from rldoctor.plan.model import Source
from tests.frameworks.conftest import Launches

# examples/qwen2.5-7B-rlvr_megatron/rlvr_config.yaml of 0.3.0, shortened.
CONFIG = """\
seed: 42
num_gpus_per_node: 8
rollout_batch_size: 64
prompt_length: 2048
response_length: 4096
num_return_sequences_in_group: 8
adv_estimator: reinforce
pretrain: Qwen/Qwen2.5-7B
actor_train:
  model_args: {dtype: bf16, disable_gradient_checkpointing: false}
  training_args: {per_device_train_batch_size: 1, gradient_accumulation_steps: 32}
  strategy_args: {strategy_name: megatron_train, strategy_config: {tensor_model_parallel_size: 2}}
  device_mapping: list(range(0,16))
actor_infer:
  model_args: {dtype: bf16}
  generating_args: {max_new_tokens: "${response_length}", temperature: 0.99, num_return_sequences: 8}
  strategy_args:
    strategy_name: vllm
    strategy_config: {gpu_memory_utilization: 0.8, block_size: 16, max_model_len: 8000}
  device_mapping: list(range(0,12))
"""
SGLANG = CONFIG.replace("strategy_name: vllm", "strategy_name: sglang").replace(
    "{gpu_memory_utilization: 0.8, block_size: 16, max_model_len: 8000}",
    "{mem_fraction_static: 0.7, tensor_parallel_size: 2, context_length: 8192, load_format: auto}",
)
RUN = (
    "CONFIG_PATH=$(basename $(dirname $0))\npython examples/start_rlvr_pipeline.py --config_path $CONFIG_PATH {name}\n"
)


def test_a_launch_of_its_own(launches: Launches) -> None:
    files = {"examples/qwen/run.sh": RUN.format(name="--config_name rlvr"), "examples/qwen/rlvr.yaml": CONFIG}
    (plan,) = launches(files, roll="0.3.0", vllm="0.10.2")
    assert (plan.framework, plan.value("rollout.backend"), plan.value("model.path")) == (
        "ROLL",
        "vllm",
        "Qwen/Qwen2.5-7B",
    )
    assert (plan.value("engine.max_model_len"), plan.value("engine.gpu_memory_utilization")) == (8000, 0.8)
    assert (plan.value("placement.mode"), plan.value("placement.engines")) == ("colocate", 12)
    assert (plan.value("batch.generation"), plan.value("batch.train"), plan.value("parallel.data")) == (512, 256, 8)
    assert (plan.value("lengths.total"), plan.value("sampling.max_tokens")) == (6144, 4096)
    assert plan.unread == () and plan.unknown == ()


@pytest.mark.parametrize(("release", "budget"), [("0.1.3", None), ("0.3.0", 8192)])
def test_what_it_sets_in_the_engine_by_release(launches: Launches, release: str, budget: int | None) -> None:
    (plan,) = launches({"rlvr.yaml": CONFIG}, roll=release, vllm="0.8.4")
    found = plan.get("engine.max_num_batched_tokens")
    assert found is not None and (found.value if found.source is Source.DERIVED else None) == budget
    assert plan.value("engine.enable_sleep_mode") is True


def test_sglang_is_asked_with_its_own_words(launches: Launches) -> None:
    (plan,) = launches({"rlvr.yaml": SGLANG}, roll="0.3.0", vllm="0.10.2")
    engine = {name: setting for name, setting in plan.settings.items() if name.startswith("engine.")}
    assert (plan.value("rollout.backend"), plan.value("placement.engines")) == ("sglang", 6)
    assert (plan.value("engine.gpu_memory_utilization"), plan.value("engine.max_model_len")) == (0.7, 8192)
    assert plan.value("engine.load_format") == "auto"
    assert not any("vllm" in str(setting.how) for setting in engine.values())
    assert "engine.mem_fraction_static" not in engine and "engine.max_num_batched_tokens" not in engine


def test_devices_of_their_own(launches: Launches) -> None:
    apart = CONFIG.replace("list(range(0,12))", "list(range(16,20)) + [24, 25]") + "async_generation_ratio: 1\n"
    (plan,) = launches({"rlvr.yaml": apart}, roll="0.3.0")
    assert (plan.value("placement.mode"), plan.value("placement.engine_gpus")) == ("async", 6)
    assert plan.value("ray.gpus_needed") == 22
    assert plan.value("batch.per_request") == 1


@pytest.mark.parametrize(("release", "each"), [("0.1.1", 8), ("0.1.3", None), ("0.3.0", None)])
def test_the_driver_counts_the_devices_of_a_node_itself(release: str, each: int | None, launches: Launches) -> None:
    apart = CONFIG.replace("list(range(0,12))", "list(range(16,20)) + [24, 25]")
    (plan,) = launches({"rlvr.yaml": apart}, roll=release)
    assert plan.value("placement.gpus_per_node") == each
    # Up to device 25: four nodes, each with all that it has.
    group = {"strategy": "PACK", "bundles": 1, "each": {"GPU": each}, "count": 4}
    assert plan.value("ray.groups") == (each and [group])


def test_a_whole_sequence_in_place_of_the_response(launches: Launches) -> None:
    text = CONFIG.replace("response_length: 4096", "sequence_length: 10240").replace('"${response_length}"', "4096")
    (plan,) = launches({"rlvr.yaml": text}, roll="0.3.0")
    assert (plan.value("lengths.response"), plan.value("lengths.total")) == (8192, 10240)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list(range(0,4))", [0, 1, 2, 3]),
        ("list(range(0, 4, 2)) + [7]", [0, 2, 7]),
        ("[0, 1]", [0, 1]),
        ([2, 3], [2, 3]),
        ("list(range(0,NUM))", None),
        ("__import__('os').listdir('/')", None),
        ("list(range(0, 10**12))", None),
        ("list(range(0, 1000000000000))", None),
        (None, None),
        ("[", None),
    ],
)
def test_device_numbers(text: object, expected: list[int] | None) -> None:
    assert devices(text) == expected


def test_another_configuration_with_an_actor_is_not_rolls(launches: Launches) -> None:
    found = launches({"a.yaml": "actor_train: {lr: 1}\nseed: 42\nrollout_batch_size: 64\n"})
    assert all(plan.framework != "ROLL" for plan in found)


@pytest.mark.parametrize(
    ("release", "more", "spread"),
    [
        ("0.1.3", "", "load"),
        ("0.2.1", "", "prompt"),
        ("0.3.0", "router_args: {router_name: EnvAffinityRouter}\n", "load"),
        ("0.3.0", "router_args: {router_name: SglangRouter}\n", None),
    ],
)
def test_every_engine_has_the_pipelines_seed(launches: Launches, release: str, more: str, spread: str | None) -> None:
    files = {"run.sh": RUN.format(name="--config_name rlvr"), "rlvr.yaml": CONFIG + more}
    (plan,) = launches(files, roll=release, vllm="0.10.2")
    assert (plan.value("seed.per_replica"), plan.value("engine.seed")) == ("same", 42)
    assert plan.value("rollout.spread") == spread


def test_the_folder_of_a_configuration_lies_beside_the_script_that_is_started(launches: Launches) -> None:
    run = "python examples/start_rlvr_pipeline.py --config_path qwen --config_name rlvr\n"
    (plan,) = launches({"run.sh": run, "examples/qwen/rlvr.yaml": CONFIG}, roll="0.3.0", vllm="0.10.2")
    assert plan.value("engine.max_model_len") == 8000


def test_what_cannot_be_read_of_a_number_is_unknown(launches: Launches) -> None:
    text = CONFIG.replace("dtype: bf16, disable", "lora_target: all-linear, lora_rank: '${oc.env:RANK}', disable")
    (plan,) = launches({"rlvr.yaml": text}, roll="0.3.0")
    assert plan.value("lora.enabled") is True and plan.value("lora.rank") is None


def test_an_engine_of_sglang_takes_the_devices_of_its_worker(launches: Launches) -> None:
    # distributed/strategy/sglang_strategy.py
    alone = SGLANG.replace("tensor_parallel_size: 2, context", "context")
    shared = alone.replace("list(range(0,12))", "list(range(0,12))\n  num_gpus_per_worker: 4")
    for text, size, engines in ((SGLANG, 2, 6), (alone, None, 12), (shared, 4, 3)):
        (plan,) = launches({"rlvr.yaml": text}, roll="0.3.0", sglang="0.5.2")
        assert (plan.value("engine.tensor_parallel_size"), plan.value("placement.engines")) == (size, engines)


@pytest.mark.parametrize(
    ("worker", "refused"),
    [("roll.pipeline.rlvr.actor_pg_worker.ActorPGWorker", ["gspo"]), ("recipe.workers.GSPOWorker", [])],
)
def test_a_worker_of_ones_own_takes_words_of_its_own(launches: Launches, worker: str, refused: list[str]) -> None:
    config = CONFIG.replace("actor_train:\n", f"actor_train:\n  worker_cls: {worker}\n  pg_variant: gspo\n")
    files = {"examples/qwen/run.sh": RUN.format(name="--config_name rlvr"), "examples/qwen/rlvr.yaml": config}
    (plan,) = launches(files, roll="0.3.0", vllm="0.10.2")
    assert [one.value for one in plan.refused] == refused
