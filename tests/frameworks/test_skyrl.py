"""SkyRL: the names of its two packages, what its releases hand to vLLM, placement groups and batch arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.edits.edit import apply, save
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan
from tests.frameworks.making import is_made, made

Launches = Callable[..., list[RolloutPlan]]

FIRST = """\
uv run --isolated --extra vllm -m skyrl_train.entrypoints.main_base \\
  data.train_data="['$HOME/data/gsm8k/train.parquet']" \\
  trainer.algorithm.advantage_estimator="grpo" \\
  trainer.policy.model.path="org/model" \\
  trainer.placement.colocate_all=true \\
  trainer.placement.policy_num_gpus_per_node=4 trainer.placement.ref_num_gpus_per_node=4 \\
  generator.num_inference_engines=2 \\
  generator.inference_engine_tensor_parallel_size=2 \\
  trainer.train_batch_size=64 trainer.policy_mini_batch_size=32 trainer.micro_train_batch_size_per_gpu=4 \\
  trainer.max_prompt_length=512 \\
  generator.sampling_params.max_generate_length=1024 \\
  generator.n_samples_per_prompt=8 \\
  generator.weight_sync_backend=nccl \\
  generator.run_engines_locally=true \\
  generator.gpu_memory_utilization=0.8 {more}
"""
SECOND = """\
uv run --isolated --extra fsdp -m skyrl.train.entrypoints.main_base \\
  trainer.policy.model.path=org/model \\
  trainer.placement.colocate_all=true \\
  trainer.placement.policy_num_gpus_per_node=4 trainer.placement.ref_num_gpus_per_node=4 \\
  generator.inference_engine.num_engines=4 \\
  generator.inference_engine.tensor_parallel_size=1 \\
  generator.inference_engine.run_engines_locally=true \\
  generator.n_samples_per_prompt=5 {more}
"""


def first(launches: Launches, more: str = "", version: str = "0.2.0", vllm: str = "0.10.1") -> RolloutPlan:
    (plan,) = launches({"run.sh": FIRST.format(more=more)}, skyrl_train=version, vllm=vllm)
    return plan


def second(launches: Launches, more: str = "", version: str = "0.3.0", vllm: str = "0.23.0") -> RolloutPlan:
    (plan,) = launches({"run.sh": SECOND.format(more=more)}, skyrl=version, vllm=vllm)
    return plan


@pytest.mark.parametrize(
    "command",
    [
        "python -m skyrl_train.entrypoints.main_base generator.backend=vllm",
        "uv run --isolated --extra vllm -m skyrl_train.entrypoints.main_base",
        "uv run --isolated --extra megatron --env-file .env -m skyrl.train.entrypoints.main_base",
        "uv run -m examples.algorithms.dapo.main_dapo generator.num_inference_engines=4",
        "uv run -m examples.train.algorithms.dapo.main_dapo generator.inference_engine.num_engines=4",
    ],
)
def test_its_entry_points(launches: Launches, command: str) -> None:
    (plan,) = launches({"run.sh": f"{command}\n"})
    assert plan.framework == "SkyRL"


def test_a_launch_of_verl_is_not_skyrls(launches: Launches) -> None:
    command = "python -m skyrl_agent.integrations.verl.verl_main_ppo actor_rollout_ref.rollout.name=vllm"
    (plan,) = launches({"run.sh": f"{command} +skyrl_agent.task_yaml=x.yaml\n"})
    assert plan.framework == "verl"


def test_the_agents_integration_runs_what_is_installed(launches: Launches) -> None:
    text = SECOND.format(more="").replace(
        "skyrl.train.entrypoints.main_base", "skyrl_agent.integrations.skyrl_train.skyrl_train_main"
    )
    (plan,) = launches({"run.sh": text}, skyrl="0.3.0")
    assert (plan.group, plan.value("engine.enable_sleep_mode"), plan.value("sleep.level")) == ("skyrl", True, 2)


def test_what_hydra_refuses_and_yaml_takes(launches: Launches) -> None:
    given = """generator.inference_engine.engine_init_kwargs='{"max_num_seqs": 7}'"""
    assert second(launches, given).value("engine.max_num_seqs") == 7
    torn = second(launches, """generator.inference_engine.engine_init_kwargs='{"max_num_seqs": 7'""")
    assert torn.value("engine.max_num_seqs") != 7


def test_what_is_filled_in_where_nothing_is_given(launches: Launches) -> None:
    plan = second(launches)
    assert (plan.value("model.reference_path"), plan.value("rollout.eval_sampling")) == (
        "org/model",
        {"temperature": 0.0},
    )
    other = second(launches, "trainer.ref.model.path=org/old generator.eval_sampling_params.temperature=0.6")
    assert (other.value("model.reference_path"), other.value("rollout.eval_sampling")) == (
        "org/old",
        {"temperature": 0.6},
    )


def test_colocated_engines_sleep_in_any_release(launches: Launches) -> None:
    (plan,) = launches({"run.sh": FIRST.format(more="")}, vllm="0.13.0")
    assert (plan.value("engine.enable_sleep_mode"), plan.value("sleep.level")) == (True, None)
    apart = FIRST.format(more="trainer.placement.colocate_all=false")
    (plan,) = launches({"run.sh": apart}, skyrl_train="0.4.0", vllm="0.13.0")
    assert plan.value("engine.enable_sleep_mode") is False


def test_a_job_description_holds_the_launch_as_shell(launches: Launches) -> None:
    indented = "".join(f"  {row}\n" for row in SECOND.format(more="").splitlines())
    (plan,) = launches({"job.yaml": f"resources: {{}}\nrun: |\n{indented}"}, skyrl="0.3.0")
    assert plan.framework == "SkyRL" and plan.value("placement.engines") == 4


def test_values_keep_their_places(launches: Launches) -> None:
    plan = first(launches)
    engines, ranks = plan.get("placement.engines"), plan.get("engine.tensor_parallel_size")
    assert engines is not None and ranks is not None
    assert (engines.value, engines.key, engines.line, engines.form) == (
        2,
        "generator.num_inference_engines",
        7,
        Form.OVERRIDE,
    )
    assert (ranks.value, plan.version, plan.unread, plan.unknown) == (2, "0.2.0", (), ())


def test_both_generations_mean_the_same(launches: Launches) -> None:
    old, new = first(launches), second(launches)
    assert (old.value("placement.engines"), new.value("placement.engines")) == (2, 4)
    assert old.value("rollout.backend") == new.value("rollout.backend") == "vllm"
    assert old.value("placement.mode") == new.value("placement.mode") == "colocate"
    assert old.value("placement.engine_gpus") == new.value("placement.engine_gpus") == 4


def test_old_names_hold_in_skyrl_through_0_2(launches: Launches) -> None:
    text = FIRST.format(more="").replace("skyrl_train.", "skyrl.train.")
    (before,) = launches({"run.sh": text}, skyrl="0.2.0")
    assert before.unknown == () and before.value("placement.engines") == 2
    (after,) = launches({"run.sh": text}, skyrl="0.3.0")
    renamed = {unknown.key: unknown.nearest[0] for unknown in after.unknown}
    assert renamed["generator.num_inference_engines"] == "generator.inference_engine.num_engines"
    assert renamed["generator.gpu_memory_utilization"] == "generator.inference_engine.gpu_memory_utilization"
    assert len(renamed) == 5 and not after.unknown[0].ignored


def test_names_of_both_generations_together_are_refused(launches: Launches) -> None:
    (unknown,) = second(launches, "generator.num_inference_engines=2", "0.2.0").unknown
    assert (unknown.key, unknown.nearest) == (
        "generator.num_inference_engines",
        ("generator.inference_engine.num_engines",),
    )


def test_skyrl_train_does_not_know_the_names_of_skyrl(launches: Launches) -> None:
    (unknown,) = first(launches, "generator.inference_engine.max_num_seqs=64").unknown
    assert unknown.nearest == ("generator.max_num_seqs",)


def test_a_plus_is_hydras_and_skyrl_has_no_hydra(launches: Launches) -> None:
    assert first(launches, "+generator.engine_init_kwargs.max_model_len=4096").unknown == ()
    (refused,) = second(launches, "+generator.inference_engine.engine_init_kwargs.max_model_len=4096").unknown
    assert refused.key.startswith("+") and refused.nearest[0] == refused.key[1:]
    assert second(launches, "generator.inference_engine.engine_init_kwargs.max_model_len=4096").unknown == ()


def test_a_plus_is_taken_away(launches: Launches, tmp_path: Path) -> None:
    key = "generator.inference_engine.engine_init_kwargs.max_model_len"
    plan = second(launches, f"+{key}=4096")
    dialect = by_name("SkyRL")
    assert dialect is not None
    spelled = dialect.spell(Edit(option=f"native.+{key}", value=key), plan)
    save(apply([spelled]))
    text = (tmp_path / "run.sh").read_text()
    assert f" {key}=4096" in text and apply([spelled]).changed == ()


@pytest.mark.parametrize(
    ("plan", "nearest"),
    [
        ((first, "++generator.engine_init_kwargs.", "0.2.0", "max_num_seqs=8"), "generator.max_num_seqs"),
        ((first, "++generator.engine_init_kwargs.", "0.3.0", "pipeline_parallel_size=2"), ".inference_engine_pipeline"),
        ((first, "++generator.engine_init_kwargs.", "0.2.0", "pipeline_parallel_size=2"), None),
        ((second, "generator.inference_engine.engine_init_kwargs.", "0.1.0", "model=org/other"), "policy.model.path"),
        # The servers' command line is a namespace, in which the last one counts.
        ((second, "generator.inference_engine.engine_init_kwargs.", "0.3.0", "max_num_seqs=8"), None),
    ],
)
def test_an_engine_argument_is_not_passed_twice(
    launches: Launches, plan: tuple[Callable[..., RolloutPlan], str, str, str], nearest: str | None
) -> None:
    launch, section, version, argument = plan
    unknown = launch(launches, section + argument, version).unknown
    assert [nearest in found.nearest[0] for found in unknown if nearest] == [True] * (nearest is not None)
    assert len(unknown) == (nearest is not None)


def test_keys_of_an_examples_own_classes_are_quiet(launches: Launches) -> None:
    own = "trainer.algorithm.overlong_buffer_len=512 generator.apply_my_filter=true"
    text = SECOND.format(more=own)
    (framework,) = launches({"run.sh": text}, skyrl="0.3.0")
    assert len(framework.unknown) == 2
    example = text.replace("skyrl.train.entrypoints.main_base", "examples.train.algorithms.dapo.main_dapo")
    (plan,) = launches({"run.sh": example}, skyrl="0.3.0")
    assert plan.unknown == ()
    engine = example.replace("trainer.algorithm.overlong_buffer_len=512", "generator.inference_engine.{}")
    (new,) = launches({"run.sh": engine.format("my_mode=tr")}, skyrl="0.3.0")
    (misspelt,) = launches({"run.sh": engine.format("num_enginess=4")}, skyrl="0.3.0")
    assert new.unknown == () and [option.nearest[0] for option in misspelt.unknown] == [
        "generator.inference_engine.num_engines"
    ]
    handed = text.replace("generator.n_samples", "trainer.override_entrypoint=my.main generator.n_samples")
    (other,) = launches({"run.sh": handed}, skyrl="0.3.0")
    assert other.unknown == () and other.value("seed.per_replica") is None
    # Engines that share devices are the integration's to place; colocate_all has to be false then.
    assert new.value("placement.roles") and other.value("placement.roles") is None
    assert other.value("ray.gpus_needed") is None and other.value("placement.engine_gpus") is None


@pytest.mark.parametrize(
    "key", ["generator.enable_chunked_prefill", "generator.inference_engine.enable_chunked_prefill"]
)
def test_chunked_prefill_reaches_the_engine_through_its_arguments_only(launches: Launches, key: str) -> None:
    launch = second if "inference_engine." in key else first
    plan = launch(launches, f"{key}=false")
    (unknown,) = plan.unknown
    assert unknown.ignored and unknown.nearest[0].endswith("engine_init_kwargs.enable_chunked_prefill")
    assert plan.value("engine.enable_chunked_prefill") is not False
    assert launch(launches, f"{key}=true").unknown == ()
    given = unknown.nearest[0] + "=false"
    assert launch(launches, given).value("engine.enable_chunked_prefill") is False


@pytest.mark.parametrize(
    ("launch", "version", "environment", "seeds", "length", "executor"),
    [
        (first, "0.1.0", None, "replica", 1536, "ray"),
        (first, "0.2.0", None, "replica", None, "ray"),
        (second, "0.1.0", None, "replica", None, "uni"),
        (second, "0.1.0", "1", "same", None, None),
        (second, "0.2.0", None, "same", None, "ray"),
        (second, "0.2.0", "0", "replica", None, "uni"),
        (second, "0.3.0", None, "same", None, "ray"),
    ],
)
def test_what_each_release_hands_to_the_engine(
    launches: Launches,
    launch: Callable[..., RolloutPlan],
    version: str,
    environment: str | None,
    seeds: str,
    length: int | None,
    executor: str | None,
) -> None:
    text, name = (FIRST, "skyrl_train") if launch is first else (SECOND, "skyrl")
    shell = {} if environment is None else {"_SKYRL_USE_NEW_INFERENCE": environment}
    (plan,) = launches({"run.sh": text.format(more="trainer.seed=7")}, environment=shell, **{name: version})
    assert plan.value("seed.per_replica") == seeds and plan.value("engine.seed") == 7
    assert plan.value("engine.max_model_len") == length
    assert plan.value("engine.distributed_executor_backend") == executor
    assert plan.value("env.VLLM_USE_V1") == "1" and plan.value("seed.per_request") == "none"


def test_engines_alone_need_no_devices_for_a_trainer(launches: Launches) -> None:
    text = SECOND.format(more="").replace("main_base", "serve").replace("colocate_all=true", "colocate_all=false")
    (plan,) = launches({"run.sh": text}, skyrl="0.3.0")
    assert (plan.role, plan.value("placement.roles"), plan.value("ray.gpus_needed")) == ("server", {"engine": 4}, 4)


def test_nothing_is_derived_for_an_unknown_release(launches: Launches) -> None:
    (plan,) = launches({"run.sh": FIRST.format(more="")})
    assert plan.version is None and plan.value("seed.per_replica") is None
    assert plan.value("engine.max_model_len") is None and plan.value("env.VLLM_USE_V1") is None


@pytest.mark.parametrize(
    ("version", "more", "level", "lora"),
    [
        ("0.1.0", "", 1, None),
        ("0.2.0", "", 2, None),
        ("0.2.0", "trainer.policy.model.lora.rank=32", 1, 32),
        ("0.2.0", "trainer.placement.colocate_all=false", 0, None),
    ],
)
def test_sleep_and_adapters(launches: Launches, version: str, more: str, level: int, lora: int | None) -> None:
    plan = first(launches, more, version)
    assert plan.value("sleep.level") == level
    assert plan.value("engine.enable_sleep_mode") is (level > 0)
    assert plan.value("engine.enable_lora") is (lora is not None)
    assert lora is None or plan.value("engine.max_lora_rank") == lora


def test_adapters_that_megatron_merges_never_reach_the_engine(launches: Launches) -> None:
    more = "trainer.strategy=megatron trainer.policy.model.lora.rank=16"
    merged = second(launches, more)
    assert merged.value("lora.merged") is True and merged.value("engine.enable_lora") is not True
    kept = second(launches, more + " trainer.policy.megatron_config.lora_config.merge_lora=false")
    assert kept.value("engine.enable_lora") is True and kept.value("engine.max_lora_rank") == 16


def test_the_engines_own_allocator_setting(launches: Launches) -> None:
    plan = second(launches, "generator.inference_engine.use_expandable_segments=true")
    assert plan.value("env.PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:True"
    assert second(launches, "trainer.use_expandable_segments=true").value("env.PYTORCH_CUDA_ALLOC_CONF") is None


@pytest.mark.parametrize(
    ("more", "mode", "needed"),
    [
        ("", "colocate", 4),
        ("trainer.placement.colocate_all=false", "separate", 8),
        ("trainer.placement.colocate_all=false trainer.placement.colocate_policy_ref=false", "separate", 12),
        ("trainer.placement.colocate_all=false trainer.algorithm.use_kl_loss=false", "separate", 8),
        ("trainer.placement.colocate_all=false generator.run_engines_locally=false", "server", 4),
    ],
)
def test_devices_asked_for(launches: Launches, more: str, mode: str, needed: int) -> None:
    plan = first(launches, more)
    assert (plan.value("placement.mode"), plan.value("ray.gpus_needed")) == (mode, needed)


def test_asynchronous_training_overlaps_on_devices_of_its_own(launches: Launches) -> None:
    more = "trainer.placement.colocate_all=false trainer.fully_async.enabled=true"
    plan = second(launches, more)
    assert (plan.value("placement.mode"), plan.value("ray.gpus_needed")) == ("async", 8)


def test_batches_count_prompts_and_completions(launches: Launches) -> None:
    plan = first(launches)
    assert (plan.value("batch.generation"), plan.value("batch.train")) == (512, 256)
    assert (plan.value("parallel.data"), plan.value("batch.accumulation")) == (4, 16)
    sequence = first(launches, "trainer.policy.sequence_parallel_size=2")
    assert sequence.value("parallel.data") == 2
    megatron = first(launches, "trainer.strategy=megatron trainer.policy.megatron_config.tensor_model_parallel_size=4")
    assert megatron.value("parallel.data") == 1
    # Read with that strategy only.
    unused = first(launches, "trainer.policy.megatron_config.tensor_model_parallel_size=4")
    assert unused.value("parallel.tensor") is None and unused.value("parallel.data") == 4


def test_several_turns_need_room_for_the_dialogue(launches: Launches) -> None:
    plan = first(launches, "generator.max_turns=5 generator.max_input_length=4096", "0.1.0")
    assert plan.value("lengths.total") == plan.value("engine.max_model_len") == 4096 + 1024
    assert plan.value("lengths.prompt") == 512 and plan.value("rollout.multi_turn") is True


@pytest.mark.parametrize(
    ("launch", "option", "value", "spelled"),
    [
        (first, "placement.engines", 4, "generator.num_inference_engines=4"),
        (first, "engine.max_num_batched_tokens", 4096, "generator.max_num_batched_tokens=4096"),
        (first, "engine.enable_chunked_prefill", False, "++generator.engine_init_kwargs.enable_chunked_prefill=false"),
        (second, "engine.gpu_memory_utilization", 0.5, "generator.inference_engine.gpu_memory_utilization=0.5"),
        (
            second,
            "engine.enable_chunked_prefill",
            False,
            "generator.inference_engine.engine_init_kwargs.enable_chunked_prefill=false",
        ),
        (second, "batch.mini_prompts", 64, "trainer.policy_mini_batch_size=64"),
        (second, "placement.mode", "separate", "trainer.placement.colocate_all=false"),
    ],
)
def test_fixes_in_the_names_of_the_release(
    launches: Launches,
    tmp_path: Path,
    launch: Callable[..., RolloutPlan],
    option: str,
    value: object,
    spelled: str,
) -> None:
    plan = launch(launches)
    assert made(plan, option, value) == spelled
    named = {"skyrl_train": "0.2.0", "vllm": "0.10.1"} if launch is first else {"skyrl": "0.3.0", "vllm": "0.23.0"}
    (mended,) = launches({"run.sh": (tmp_path / "run.sh").read_text()}, **named)
    assert is_made(mended, option, value) and mended.unknown == ()
