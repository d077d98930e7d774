"""EasyR1: overrides over its YAML, what its workers hand to vLLM, and its batch arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.frameworks import by_name
from rldoctor.plan.model import Form, RolloutPlan, Source
from tests.frameworks.making import is_made, made

Launches = Callable[..., list[RolloutPlan]]

CONFIG = """\
data:
  max_prompt_length: 2048
  max_response_length: 2048  # longest answer
  rollout_batch_size: 512
algorithm:
  adv_estimator: grpo
worker:
  actor:
    global_batch_size: 128
    micro_batch_size_per_device_for_update: 4
    model:
      model_path: org/model
  rollout:
    n: 5
    enable_chunked_prefill: false
    tensor_parallel_size: 2
trainer:
  n_gpus_per_node: 8
  nnodes: 2
"""
RUN = """\
python3 -m verl.trainer.main \\
    config=examples/config.yaml \\
    data.max_response_length=6144 \\
    worker.rollout.gpu_memory_utilization=0.5 {more}
"""


def run(launches: Launches, more: str = "", version: str = "0.3.2", config: str = CONFIG) -> RolloutPlan:
    files = {"run.sh": RUN.format(more=more), "examples/config.yaml": config}
    (plan,) = launches(files, easyr1=version, vllm="0.8.5")
    return plan


def test_overrides_win_over_the_yaml_and_both_keep_their_places(launches: Launches) -> None:
    plan = run(launches)
    response, prompt, share = (
        plan.get(name) for name in ("lengths.response", "lengths.prompt", "engine.gpu_memory_utilization")
    )
    assert response is not None and prompt is not None and share is not None
    assert (plan.framework, plan.version, plan.unread, plan.unknown) == ("EasyR1", "0.3.2", (), ())
    assert (response.value, response.line, response.form) == (6144, 3, Form.OVERRIDE)
    assert (prompt.value, prompt.line, prompt.form) == (2048, 2, Form.YAML)
    assert prompt.file is not None and prompt.file.endswith("config.yaml")
    assert share.key == "worker.rollout.gpu_memory_utilization"


def test_its_yaml_is_recognised_and_verls_command_is_not_its_own(launches: Launches) -> None:
    (own,) = launches({"config.yaml": CONFIG}, easyr1="0.3.2")
    assert (own.framework, own.value("lengths.response")) == ("EasyR1", 2048)
    (other,) = launches({"run.sh": "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=5\n"}, verl="0.5.0")
    assert other.framework == "verl"


def test_the_engine_gets_the_sum_of_the_lengths_and_the_flag_as_it_stands(launches: Launches) -> None:
    plan = run(launches)
    context, chunked, budget = (
        plan.get(f"engine.{name}") for name in ("max_model_len", "enable_chunked_prefill", "max_num_batched_tokens")
    )
    assert context is not None and chunked is not None and budget is not None
    # workers/rollout/vllm_rollout_spmd.py: max_model_len or prompt + response
    assert (context.value, context.source, context.line) == (8192, Source.DERIVED, 3)
    assert (chunked.value, budget.value, budget.source) == (False, 8192, Source.DEFAULT)
    assert run(launches, "worker.rollout.max_model_len=4096").value("engine.max_model_len") == 4096
    for name, value in (("enable_sleep_mode", True), ("distributed_executor_backend", "external_launcher")):
        assert plan.value(f"engine.{name}") == value
    assert (plan.value("sleep.level"), plan.value("engine.load_format")) == (1, "dummy")


def test_adapters_reach_the_engine_under_their_own_rank(launches: Launches) -> None:
    plan = run(launches, "worker.actor.model.lora.rank=48", version="0.3.3.dev0")
    assert plan.value("lora.enabled") is True and plan.value("trainer.full") is False
    assert plan.value("engine.max_lora_rank") == 48 and plan.value("engine.enable_lora") is True
    assert plan.value("engine.load_format") == "safetensors"
    # 0.3.2 has no adapters.
    assert [option.key for option in run(launches, "worker.actor.model.lora.rank=48").unknown] == [
        "worker.actor.model.lora.rank"
    ]


def test_every_engine_and_every_request_have_the_same_seed(launches: Launches) -> None:
    plan = run(launches)
    assert (plan.value("engine.seed"), plan.value("sampling.seed")) == (1, 1)
    assert (plan.value("seed.per_replica"), plan.value("seed.per_request")) == ("same", "same")
    # One request carries the whole group.
    assert plan.value("sampling.n") == plan.value("batch.generations") == 5
    assert run(launches, "worker.rollout.seed=7").value("engine.seed") == 7
    # Also where the release is not known: it has been 1 in all of them.
    own = {"run.sh": "python3 -m verl.trainer.main config=c.yaml\n", "c.yaml": "worker:\n  rollout:\n    n: 5\n"}
    (unknown,) = launches(own)
    assert unknown.value("seed.engine") == 1


def test_batches_are_counted_in_prompts(launches: Launches) -> None:
    plan = run(launches)
    assert (plan.value("batch.prompts"), plan.value("batch.generation")) == (512, 2560)
    assert (plan.value("batch.mini_prompts"), plan.value("batch.train")) == (128, 640)
    # 640 completions over 16 ranks in micro batches of 4
    assert (plan.value("parallel.data"), plan.value("batch.accumulation")) == (16, 10)
    assert plan.value("placement.engines") == 8 and plan.value("ray.gpus_needed") == 16
    assert plan.value("placement.mode") == "colocate" and plan.value("process.launcher") == "ray"


@pytest.mark.parametrize(
    ("version", "key", "unknown"),
    [
        ("0.3.0", "ulysses_sequence_parallel_size", ()),
        ("0.3.1", "ulysses_size", ()),
        ("0.3.1", "ulysses_sequence_parallel_size", ("worker.actor.ulysses_sequence_parallel_size",)),
    ],
)
def test_old_and_new_names(launches: Launches, version: str, key: str, unknown: tuple[str, ...]) -> None:
    plan = run(launches, f"worker.actor.{key}=2", version=version)
    assert plan.value("parallel.sequence") == 2 and plan.value("parallel.data") == 8
    assert tuple(option.key for option in plan.unknown) == unknown


def test_a_misspelt_override_is_unknown_and_the_real_name_is_near(launches: Launches) -> None:
    plan = run(launches, "worker.rollout.enable_chunk_prefill=true")
    (option,) = plan.unknown
    assert (option.key, option.nearest[0]) == (
        "worker.rollout.enable_chunk_prefill",
        "worker.rollout.enable_chunked_prefill",
    )
    assert not option.ignored


def test_offloading_by_fsdp_and_between_phases(launches: Launches) -> None:
    plan = run(launches, "worker.actor.fsdp.enable_cpu_offload=true worker.ref.fsdp.enable_cpu_offload=true")
    assert plan.value("trainer.offload_params") is True and plan.value("trainer.offload_gradients") is True
    assert plan.value("trainer.reference_offload") is True
    assert run(launches, "algorithm.disable_kl=true").value("trainer.reference") is False


def test_workers_get_easyr1s_own_allocator_setting(launches: Launches) -> None:
    script = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" + RUN.format(more="")
    (plan,) = launches({"run.sh": script, "examples/config.yaml": CONFIG}, easyr1="0.3.2")
    assert plan.value("env.PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:False"


@pytest.mark.parametrize(
    ("option", "value", "spelled"),
    [
        ("engine.enable_chunked_prefill", True, "worker.rollout.enable_chunked_prefill: true"),
        ("lengths.response", 4096, "data.max_response_length=4096"),
        ("engine.max_num_batched_tokens", 10240, "worker.rollout.max_num_batched_tokens=10240"),
        ("batch.mini_prompts", 64, "worker.actor.global_batch_size: 64"),
    ],
)
def test_fixes_are_spelled_where_the_setting_stands(
    launches: Launches, tmp_path: Path, option: str, value: object, spelled: str
) -> None:
    plan = run(launches)
    assert made(plan, option, value) == spelled
    files = {name: (tmp_path / name).read_text() for name in ("run.sh", "examples/config.yaml")}
    (mended,) = launches(files, easyr1="0.3.2", vllm="0.8.5")
    assert is_made(mended, option, value)
    assert "# longest answer" in files["examples/config.yaml"]


@pytest.mark.parametrize(("release", "prompt", "evaluated"), [("0.3.0", 2048, -1), ("0.3.2", 2048, 1024)])
def test_the_example_configuration_is_the_releases(
    launches: Launches, release: str, prompt: int, evaluated: int
) -> None:
    run = "python3 -m verl.trainer.main config=examples/config.yaml worker.rollout.n=8\n"
    (plan,) = launches({"run.sh": run}, easyr1=release, vllm="0.8.5")
    setting = plan.get("lengths.prompt")
    assert setting is not None and (setting.value, setting.source) == (prompt, Source.DEFAULT)
    assert plan.value("batch.validation") == evaluated and plan.value("batch.generations") == 8
    assert any("taken for the one of the release" in note.text and not note.unread for note in plan.notes)
    # Where it lies beside the launch, what it leaves out is the class's default.
    files = {"run.sh": run, "examples/config.yaml": "data: {max_response_length: 64}\n"}
    (plan,) = launches(files, easyr1=release, vllm="0.8.5")
    assert (plan.value("lengths.response"), plan.value("lengths.prompt")) == (64, 512)
    (plan,) = launches({"run.sh": run.replace("examples/", "my/")}, easyr1=release)
    assert plan.value("lengths.prompt") is None


def test_what_only_evaluation_asks_for_is_asked_of_the_same_engine(launches: Launches) -> None:
    plan = run(launches, "worker.rollout.val_override_config.min_tokens=64")
    least = plan.get("sampling.min_tokens")
    assert least is not None and (least.value, plan.unread) == (64, ())
    assert by_name("EasyR1") and least.key == "worker.rollout.val_override_config.min_tokens"


@pytest.mark.parametrize(
    ("words", "takes"),
    [
        ("--config examples/config.yaml", "config=examples/config.yaml"),
        ("--config=examples/config.yaml", "config=examples/config.yaml"),
        ("config=examples/config.yaml --trainer.nnodes=2", "trainer.nnodes=2"),
        ("config=examples/config.yaml trainer.nnodes=2", None),
    ],
)
def test_keys_have_no_dashes(launches: Launches, words: str, takes: str | None) -> None:
    (plan,) = launches({"run.sh": f"python3 -m verl.trainer.main {words}\n", "examples/config.yaml": CONFIG})
    assert [one.takes.rpartition(": ")[2] for one in plan.refused if one.owner == "OmegaConf"] == [takes] * bool(takes)


@pytest.mark.parametrize(("name", "known"), [("bf-16", False), ("bf16", True), ("float32", True)])
def test_the_precisions_that_it_knows(launches: Launches, name: str, known: bool) -> None:
    run = f"python3 -m verl.trainer.main config=examples/config.yaml worker.actor.fsdp.torch_dtype={name}\n"
    (plan,) = launches({"run.sh": run, "examples/config.yaml": CONFIG}, easyr1="0.3.2")
    assert [one.value for one in plan.refused] == [name] * (not known)
