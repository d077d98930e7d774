"""NeMo-RL: configurations that inherit, overrides over them, sections in force, and what its workers hand to vLLM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.edits.edit import apply, save
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan, Source

Launches = Callable[..., list[RolloutPlan]]

BASE = """\
grpo:
  num_prompts_per_step: 32
  num_generations_per_prompt: 16
  val_period: 10
  async_grpo:
    enabled: false
policy:
  model_name: org/model
  train_global_batch_size: 512
  train_micro_batch_size: 4
  max_total_sequence_length: 512
  precision: bfloat16
  dtensor_cfg:
    enabled: true
    tensor_parallel_size: 2
    context_parallel_size: 1
  megatron_cfg:
    enabled: false
    tensor_model_parallel_size: 4
    pipeline_model_parallel_size: 2
    context_parallel_size: 1
  dynamic_batching:
    enabled: false
    train_mb_tokens: ${mul:${..max_total_sequence_length}, ${..train_micro_batch_size}}
  sequence_packing:
    enabled: true
    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, 8}
  generation:
    backend: vllm
    max_new_tokens: ${policy.max_total_sequence_length}
    temperature: 1.0
    vllm_cfg:
      async_engine: false
      precision: ${policy.precision}
      tensor_parallel_size: 1
      pipeline_parallel_size: 1
      gpu_memory_utilization: 0.6
      max_model_len: ${policy.max_total_sequence_length}
      enforce_eager: false
    vllm_kwargs: {}
    colocated:
      enabled: true
      resources: {gpus_per_node: null, num_nodes: null}
data:
  max_input_seq_length: ${policy.max_total_sequence_length}
cluster:
  gpus_per_node: 8
  num_nodes: 1
"""
RECIPE = """\
defaults: ../grpo_math_1B.yaml
policy:
  max_total_sequence_length: 4096
  generation:
    vllm_cfg:
      tensor_parallel_size: 4
{more}
"""
RUN = "uv run python examples/run_grpo_math.py --config examples/configs/recipes/own.yaml {more}\n"


def files(more: str = "", recipe: str = "", base: str = BASE) -> dict[str, str]:
    return {
        "run.sh": RUN.format(more=more),
        "examples/configs/recipes/own.yaml": RECIPE.format(more=recipe),
        "examples/configs/grpo_math_1B.yaml": base,
    }


def run(
    launches: Launches, more: str = "", recipe: str = "", version: str = "0.5.0", base: str = BASE, vllm: str = "0.11.2"
) -> RolloutPlan:
    (plan,) = launches(files(more, recipe, base), nemo_rl=version, vllm=vllm)
    return plan


def whole(launches: Launches, text: str, version: str = "0.5.0") -> RolloutPlan:
    (plan,) = launches({"grpo.yaml": text}, nemo_rl=version, vllm="0.11.2")
    return plan


@pytest.mark.parametrize(
    "command",
    [
        "uv run python examples/run_grpo_math.py",
        "uv run examples/run_grpo.py --config x.yaml",
        "uv run ./examples/run_vlm_grpo.py cluster.num_nodes=2",
        "python examples/nemo_gym/run_grpo_nemo_gym.py --config x.yaml",
        "python examples/run_distillation_math.py",
        "python own.py policy.generation.vllm_cfg.tensor_parallel_size=2",
    ],
)
def test_its_entry_points(launches: Launches, command: str) -> None:
    (plan,) = launches({"run.sh": f"{command}\n"})
    assert plan.framework == "NeMo-RL"


def test_a_recipe_that_inherits_nearly_all_is_known_by_its_parent(launches: Launches) -> None:
    recipe = {"own.yaml": "defaults: grpo_math_1B.yaml\ngrpo:\n  max_num_steps: 3\n"}
    (plan,) = launches({**recipe, "grpo_math_1B.yaml": BASE})
    assert plan.framework == "NeMo-RL" and plan.value("trainer.steps") == 3
    (alone,) = launches(recipe)
    assert alone.framework == "NeMo-RL"


def test_a_script_of_ones_own_is_known_by_its_configuration(launches: Launches) -> None:
    (plan,) = launches({"run.sh": "python train.py --config grpo.yaml\n", "grpo.yaml": BASE})
    assert plan.framework == "NeMo-RL"
    assert launches({"run.sh": "python train.py --config grpo.yaml\n", "grpo.yaml": "policy: default\n"}) == []


def test_children_win_over_parents_and_the_command_line_over_both(launches: Launches) -> None:
    plan = run(launches, "policy.generation.vllm_cfg.gpu_memory_utilization=0.5")
    share, ranks, prompts = (
        plan.get(name) for name in ("engine.gpu_memory_utilization", "engine.tensor_parallel_size", "batch.prompts")
    )
    assert share is not None and ranks is not None and prompts is not None
    assert (share.value, share.form, share.line) == (0.5, Form.OVERRIDE, 1)
    assert (ranks.value, ranks.form, ranks.line, Path(ranks.file or "").name) == (4, Form.YAML, 6, "own.yaml")
    assert (prompts.value, prompts.line, Path(prompts.file or "").name) == (32, 2, "grpo_math_1B.yaml")
    assert (plan.version, plan.unread, plan.unknown, plan.notes) == ("0.5.0", (), (), ())


def test_interpolation_sees_the_merged_configuration(launches: Launches) -> None:
    plan = run(launches)
    assert plan.value("engine.max_model_len") == 4096
    assert plan.value("sampling.max_tokens") == 4096 and plan.value("engine.dtype") == "bfloat16"
    assert plan.value("batch.tokens_per_device") == 4096 * 8  # packing is on, dynamic batching off
    dynamic = run(launches, "policy.dynamic_batching.enabled=true policy.sequence_packing.enabled=false")
    assert dynamic.value("batch.tokens_per_device") == 4096 * 4


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("${add:${..a}, 2}", 6),
        ("${div:${..a},2}", 2),
        ("${max:3, ${..a}}", 4),
        ("${div:${..a}, 0}", None),
        ("${no:1}", None),
    ],
)
def test_the_resolvers_that_it_registers(launches: Launches, formula: str, value: int | None) -> None:
    text = BASE.replace(
        "train_micro_batch_size: 4", f"a: 4\n  train_micro_batch_size: '{formula.replace('..a', '.a')}'"
    )
    size = whole(launches, text).get("batch.per_device")
    assert size is not None and size.value == value and (value is not None or size.unknown)


def test_override_replaces_a_section(launches: Launches) -> None:
    recipe = "cluster:\n  _override_: true\n  num_nodes: 2\n"
    plan = run(launches, recipe=recipe)
    assert plan.value("placement.nodes") == 2 and plan.value("placement.gpus_per_node") is None


def test_a_parent_that_names_itself_and_one_that_is_missing(launches: Launches) -> None:
    (plan,) = launches({"grpo.yaml": "defaults: grpo.yaml\n" + BASE})
    assert plan.value("batch.prompts") == 32
    (lost,) = launches({"grpo.yaml": "defaults: nowhere.yaml\n" + BASE})
    assert [note.text for note in lost.notes if "nowhere.yaml: named here, not found" in note.text]


def test_a_missing_base_configuration_is_the_releases_own(launches: Launches) -> None:
    recipe = {"own.yaml": RECIPE.format(more="").replace("../", "")}
    (plan,) = launches(recipe, nemo_rl="0.5.0", vllm="0.11.2")
    length, share = plan.get("engine.max_model_len"), plan.get("engine.gpu_memory_utilization")
    assert length is not None and share is not None
    # ${policy.max_total_sequence_length} of the base, with the recipe's value.
    assert (length.value, length.source) == (4096, Source.DEFAULT)
    assert (share.value, share.source, share.key) == (
        0.6,
        Source.DEFAULT,
        "policy.generation.vllm_cfg.gpu_memory_utilization",
    )
    assert plan.value("parallel.pipeline") is None, "of Megatron, which is not enabled there"
    (unknown,) = launches(recipe)
    assert unknown.value("engine.gpu_memory_utilization") is None


def test_only_the_backend_in_force_counts(launches: Launches) -> None:
    dtensor = run(launches)
    assert dtensor.value("trainer.strategy") == "fsdp2"
    assert dtensor.value("parallel.tensor") == 2 and dtensor.get("parallel.pipeline") is None
    assert dtensor.value("parallel.data") == 4
    megatron = run(launches, "policy.megatron_cfg.enabled=true policy.dtensor_cfg.enabled=false")
    tensor = megatron.get("parallel.tensor")
    assert tensor is not None and tensor.key == "policy.megatron_cfg.tensor_model_parallel_size"
    assert (tensor.value, megatron.value("parallel.pipeline"), megatron.value("parallel.data")) == (4, 2, 1)
    assert megatron.value("trainer.strategy") == "megatron"


def test_devices_of_trainer_and_engines(launches: Launches) -> None:
    together = run(launches)
    assert together.value("placement.mode") == "colocate" and together.value("placement.engines") == 2
    one = "policy.generation.colocated.enabled=false policy.generation.colocated.resources.gpus_per_node=4"
    apart = run(launches, one)
    assert (apart.value("placement.mode"), apart.value("sleep.enabled")) == ("separate", False)
    assert (apart.value("placement.engine_gpus"), apart.value("placement.trainer_gpus")) == (4, 4)
    several = (
        one + " policy.generation.colocated.resources.num_nodes=1 cluster.num_nodes=3 grpo.async_grpo.enabled=true"
    )
    away = run(launches, several)
    assert (away.value("placement.mode"), away.value("ray.gpus_needed")) == ("async", 24)
    assert (away.value("placement.engine_gpus"), away.value("placement.trainer_gpus")) == (8, 16)


def test_a_reward_model_as_environment_takes_nodes_of_its_own(launches: Launches) -> None:
    text = BASE.replace("data:\n", "data:\n  env_name: reward_model\n").replace("num_nodes: 1\n", "num_nodes: 3\n")
    text += "env:\n  reward_model:\n    resources: {gpus_per_node: 8, num_nodes: 1}\n"
    assert whole(launches, text).value("placement.trainer_gpus") == 16
    assert (
        whole(launches, text.replace("env_name: reward_model", "env_name: math")).value("placement.trainer_gpus") == 24
    )


def test_teachers_take_a_node_for_each_checkpoint(launches: Launches) -> None:
    teachers = (
        "on_policy_distillation:\n  teacher_model_by_agent_name: {a: org/one, b: org/one, c: org/two}\n"
        "  non_colocated_teachers: {enabled: true, default_teacher_cfg: {num_nodes: 1}}\n"
    )
    text = BASE.replace("num_nodes: 1\n", "num_nodes: 4\n") + teachers
    assert whole(launches, text, "0.7.0").value("placement.trainer_gpus") == 16


@pytest.mark.parametrize(
    ("limit", "asked", "room", "prompt", "response"),
    [
        ("${policy.max_total_sequence_length}", "${policy.max_total_sequence_length}", 512, None, 512),
        (128, "${policy.max_total_sequence_length}", 512, 128, 384),
        (128, 256, 512, 128, 256),
        # The engine has less room than the dialogue may take.
        ("${policy.max_total_sequence_length}", 512, 256, 512, None),
    ],
)
def test_lengths_are_bounded_by_the_total(
    launches: Launches, limit: object, asked: object, room: int, prompt: int | None, response: int | None
) -> None:
    text = BASE.replace("max_input_seq_length: ${policy.max_total_sequence_length}", f"max_input_seq_length: {limit}")
    text = text.replace("max_new_tokens: ${policy.max_total_sequence_length}", f"max_new_tokens: {asked}")
    text = text.replace("max_model_len: ${policy.max_total_sequence_length}", f"max_model_len: {room}")
    plan = whole(launches, text)
    assert (plan.value("lengths.prompt"), plan.value("lengths.response")) == (prompt, response)
    assert (plan.value("lengths.total"), plan.value("engine.max_model_len")) == (512, room)


@pytest.mark.parametrize(
    ("version", "seeds", "eager", "dtype", "logprobs", "v1"),
    [
        ("0.1.1", "same", True, "auto", None, "0"),
        ("0.2.0", "replica", True, "auto", None, None),
        ("0.2.1", "replica", True, "bfloat16", None, None),
        ("0.3.1", "replica", False, "bfloat16", None, "1"),
        ("0.4.0", "replica", False, "bfloat16", "raw_logprobs", "1"),
        ("0.7.0", "replica", False, "bfloat16", "processed_logprobs", "1"),
    ],
)
def test_what_each_release_hands_to_the_engine(
    launches: Launches, version: str, seeds: str, eager: bool, dtype: str, logprobs: str | None, v1: str | None
) -> None:
    (plan,) = launches({"grpo.yaml": BASE}, nemo_rl=version)
    found = [
        plan.value(name)
        for name in (
            "seed.per_replica",
            "engine.enforce_eager",
            "engine.dtype",
            "engine.logprobs_mode",
            "env.VLLM_USE_V1",
        )
    ]
    assert found == [seeds, eager, dtype, logprobs, v1]
    assert plan.value("engine.enable_sleep_mode") is True and plan.value("sleep.level") == 1


@pytest.mark.parametrize(
    ("version", "dtype", "quantization"),
    [("0.3.1", "fp8", None), ("0.5.0", "bfloat16", "fp8"), ("0.7.0", "bfloat16", "fp8")],
)
def test_precision_fp8_is_a_quantization(
    launches: Launches, version: str, dtype: str, quantization: str | None
) -> None:
    plan = whole(launches, BASE.replace("precision: bfloat16", "precision: fp8"), version)
    assert (plan.value("engine.dtype"), plan.value("engine.quantization")) == (dtype, quantization)


def test_nothing_is_derived_for_an_unknown_release(launches: Launches) -> None:
    (plan,) = launches({"grpo.yaml": BASE})
    assert plan.version is None and plan.value("seed.per_replica") is None
    assert plan.value("engine.enforce_eager") is False and plan.value("env.VLLM_USE_V1") is None


def test_the_switch_for_v0(launches: Launches) -> None:
    (plan,) = launches({"grpo.yaml": BASE}, environment={"NRL_VLLM_USE_V1": "0"}, nemo_rl="0.3.1")
    assert plan.value("env.VLLM_USE_V1") == "0"


def test_other_engines_have_no_vllm_settings(launches: Launches) -> None:
    plan = whole(launches, BASE.replace("backend: vllm", "backend: megatron"))
    assert plan.value("rollout.backend") == "megatron"
    assert [name for name in plan.settings if name.startswith("engine.")] == []


def test_supervised_training_has_no_rollouts(launches: Launches) -> None:
    plan = whole(launches, "policy:\n  dtensor_cfg:\n    enabled: true\n    tensor_parallel_size: 1\n")
    assert (plan.framework, plan.value("placement.mode"), plan.value("rollout.enabled")) == ("NeMo-RL", "none", False)
    assert [name for name in plan.settings if name.startswith("engine.")] == []


def test_a_script_of_grpo_samples_also_where_its_configuration_is_not_at_hand(launches: Launches) -> None:
    command = "uv run examples/run_grpo_math.py cluster.num_nodes=4 cluster.gpus_per_node=8\n"
    (plan,) = launches({"run.sh": command}, nemo_rl="0.4.0")
    assert plan.value("ray.gpus_needed") == 32


def test_a_configuration_whose_name_a_command_prints_may_hold_anything(launches: Launches) -> None:
    more = "policy.generation.my_own=1 grpo.num_prompts_per_step=8"
    (plan,) = launches({"run.sh": f"uv run examples/run_grpo_math.py --config $(pick) {more}\n"}, nemo_rl="0.5.0")
    assert [note.text for note in plan.notes if "the name of its configuration is not known" in note.text]
    assert (plan.value("batch.prompts"), plan.value("placement.mode"), plan.unknown) == (8, None, ())


def test_engine_arguments_pass_through(launches: Launches) -> None:
    recipe = "    vllm_kwargs:\n      max_num_batched_tokens: 8192\n      enable_chunked_prefill: false\n"
    plan = run(launches, "++policy.generation.vllm_kwargs.max_num_seqs=64", recipe)
    assert plan.value("engine.max_num_batched_tokens") == 8192 and plan.value("engine.max_num_seqs") == 64
    assert plan.value("engine.enable_chunked_prefill") is False and plan.unknown == ()


@pytest.mark.parametrize(
    ("more", "key", "nearest"),
    [
        ("policy.generation.vllm_cfg.tensor_paralel_size=2", "tensor_paralel_size", "tensor_parallel_size"),
        ("policy.generation.vllm_kwargs.enable_chunked_prefill=false", "enable_chunked_prefill", "++policy.generation"),
        ("grpo.async_grpo.max_trajectory_age_steps=1", "max_trajectory_age_steps", "++grpo"),
    ],
)
def test_an_override_of_what_the_configuration_lacks_is_refused(
    launches: Launches, more: str, key: str, nearest: str
) -> None:
    (unknown,) = run(launches, more).unknown
    assert unknown.key.endswith(key) and nearest in unknown.nearest[0] and not unknown.ignored


def test_a_configuration_that_cannot_be_read_may_have_any_key(launches: Launches) -> None:
    plan = run(launches, "logger.wandb_enabled=true", base=BASE + "logger: {wandb_enabled: [}\n")
    assert plan.unknown == ()


def test_a_new_key_is_mended_with_plusses_once(launches: Launches, tmp_path: Path) -> None:
    more = "policy.generation.vllm_kwargs.enable_chunked_prefill=false"
    (unknown,) = run(launches, more).unknown
    edit = Edit(option=f"native.{unknown.key}", value=unknown.nearest[0])
    dialect = by_name("NeMo-RL")
    assert dialect is not None
    spelled = dialect.spell(edit, run(launches, more))
    save(apply([spelled]))
    assert f" ++{more}" in (tmp_path / "run.sh").read_text() and apply([spelled]).changed == ()


@pytest.mark.parametrize(
    ("version", "name", "nearest"),
    [
        ("0.1.0", "max_model_len", ("policy.generation.vllm_cfg.max_model_len",)),
        ("0.4.0", "model", ("policy.model_name",)),
        ("0.4.0", "enable_prefix_caching", ()),
        ("0.7.0", "enable_prefix_caching", ("policy.generation.vllm_cfg.enable_prefix_caching",)),
        ("0.6.0", "enable_sleep_mode", ()),
        ("0.4.0", "served_model_name", None),
        ("0.2.0", "pipeline_parallel_size", None),
    ],
)
def test_an_engine_argument_is_not_passed_twice(
    launches: Launches, version: str, name: str, nearest: tuple[str, ...] | None
) -> None:
    plan = whole(launches, BASE.replace("vllm_kwargs: {}", f"vllm_kwargs: {{{name}: 1}}"), version)
    found = [(unknown.key, unknown.nearest, unknown.ignored) for unknown in plan.unknown if not unknown.ignored]
    assert found == ([] if nearest is None else [(f"policy.generation.vllm_kwargs.{name}", nearest, False)])
    dialect = by_name("NeMo-RL")
    assert dialect is not None
    spelled = dialect.spell(Edit(option="engine.enable_sleep_mode", value=False), plan)
    assert spelled.write is None and "passes enable_sleep_mode" in str(spelled.reason)


@pytest.mark.parametrize(
    "more",
    [
        "++policy.generation.vllm_kwargs.enable_chunked_prefill=false",
        "+grpo.async_grpo.max_trajectory_age_steps=1",
        "~policy.generation.vllm_kwargs",
        "logger.wandb_enabled=true",
        "++policy.generation.vllm_cfg.my_own_key=2",
    ],
)
def test_what_is_added_with_a_plus_or_stands_somewhere_is_quiet(launches: Launches, more: str) -> None:
    base = BASE + "logger:\n  wandb_enabled: false\n"
    assert run(launches, more, base=base).unknown == ()


def test_a_misspelt_key_that_is_added_changes_nothing(launches: Launches) -> None:
    (unknown,) = run(launches, "++policy.generation.vllm_cfg.tensor_parralel_size=2").unknown
    assert unknown.ignored and unknown.nearest[0] == "policy.generation.vllm_cfg.tensor_parallel_size"


def test_a_misspelt_key_of_a_file_is_ignored_by_the_framework(launches: Launches) -> None:
    (unknown,) = run(launches, recipe="      gpu_memory_utilisation: 0.5\n").unknown
    assert unknown.ignored and unknown.nearest[0] == "policy.generation.vllm_cfg.gpu_memory_utilization"
    own = "env:\n  my_env: {size: 3}\ndata:\n  my_key: 1\npolicy_extra: 2\n"
    assert run(launches, base=BASE + own.replace("data:\n  my_key: 1\n", "")).unknown == ()


def fixed(launches: Launches, folder: Path, texts: dict[str, str], edit: Edit) -> RolloutPlan:
    """The plan after the edit was written; written again, the files stay as they are."""
    (plan,) = launches(texts, nemo_rl="0.5.0", vllm="0.11.2")
    dialect = by_name(plan.dialect)
    assert dialect is not None
    edited = apply([dialect.spell(edit, plan)])
    assert not edited.refused and edited.changed
    save(edited)
    (mended,) = launches({name: (folder / name).read_text() for name in texts}, nemo_rl="0.5.0", vllm="0.11.2")
    assert apply([dialect.spell(edit, mended)]).changed == ()
    return mended


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("engine.tensor_parallel_size", 2),
        ("engine.max_model_len", 8192),
        ("engine.enable_chunked_prefill", False),
        ("batch.prompts", 64),
        ("placement.mode", "separate"),
        ("lengths.response", 1024),
    ],
)
@pytest.mark.parametrize("target", ["run.sh", "grpo.yaml"])
def test_fixes_round_trip(launches: Launches, tmp_path: Path, target: str, option: str, value: object) -> None:
    texts = files() if target == "run.sh" else {"grpo.yaml": BASE}
    mended = fixed(launches, tmp_path, texts, Edit(option=option, value=value))
    assert mended.value(option) == value and mended.unknown == ()


def test_a_fix_goes_into_the_launch_and_not_into_its_parent(launches: Launches, tmp_path: Path) -> None:
    plan = run(launches)
    dialect = by_name("NeMo-RL")
    assert dialect is not None
    inherited = dialect.spell(Edit(option="batch.prompts", value=64), plan)
    assert (inherited.text, Path(inherited.file or "").name) == ("grpo.num_prompts_per_step=64", "run.sh")
    own = dialect.spell(Edit(option="engine.tensor_parallel_size", value=2), plan)
    assert Path(own.file or "").name == "own.yaml"
    added = dialect.spell(Edit(option="engine.enable_chunked_prefill", value=False), plan)
    assert added.text == "++policy.generation.vllm_kwargs.enable_chunked_prefill=false"
    new = dialect.spell(Edit(option="engine.kv_cache_dtype", value="fp8"), plan)
    assert new.text == "++policy.generation.vllm_cfg.kv_cache_dtype=fp8"
    (recipe,) = launches({"own.yaml": "defaults: base.yaml\ngrpo: {max_num_steps: 2}\n", "base.yaml": BASE})
    spelled = dialect.spell(Edit(option="engine.max_model_len", value=1024), recipe)
    assert Path(spelled.file or "").name == "own.yaml" and (tmp_path / "base.yaml").read_text() == BASE


LOSS = """loss_fn:
  reference_policy_kl_penalty: 0.01
  use_on_policy_kl_approximation: false
  token_level_loss: true
  use_importance_sampling_correction: false
  ratio_clip_c: null
  {clip}: 0.2
  ratio_clip_max: 0.2
"""


@pytest.mark.parametrize(
    ("clip", "gone", "lacking"),
    [
        ("ratio_clip_min", [], []),
        ("ratio_eps_min", ["loss_fn.ratio_eps_min"], ["loss_fn.ratio_clip_min"]),
        ("my_own", [], ["loss_fn.ratio_clip_min"]),
    ],
)
def test_keys_of_the_loss_that_the_release_reads_and_keys_that_it_took_away(
    launches: Launches, clip: str, gone: list[str], lacking: list[str]
) -> None:
    plan = run(launches, base=BASE + LOSS.format(clip=clip), version="0.3.0")
    assert [option.key for option in plan.unknown] == gone
    assert [value.key for value in plan.refused] == lacking


def test_keys_that_a_file_not_at_hand_may_give_are_not_missed(launches: Launches) -> None:
    texts = {"run.sh": RUN.format(more=""), "examples/configs/recipes/own.yaml": RECIPE.format(more="")}
    (plan,) = launches(texts, nemo_rl="0.3.0", vllm="0.9.0")
    assert plan.refused == ()


def test_a_section_adds_to_the_one_that_it_inherits(launches: Launches) -> None:
    kwargs = "vllm_kwargs: {compilation_config: {backend: eager}}"
    files = {
        "grpo.yaml": "defaults: base.yaml\npolicy:\n  generation:\n"
        "    vllm_kwargs: {compilation_config: {cudagraph_capture_sizes: [1, 2]}}\n",
        "base.yaml": BASE.replace("vllm_kwargs: {}", kwargs),
    }
    (plan,) = launches(files, **{"nemo-rl": "0.7.0", "vllm": "0.20.0"})
    assert plan.value("engine.compilation_config") == {"backend": "eager", "cudagraph_capture_sizes": [1, 2]}
