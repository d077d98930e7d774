"""axolotl: one YAML for trainer and server, and what of it reaches TRL."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rldoctor.edits.edit import apply
from rldoctor.errors import InputError
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan

Launches = Callable[..., list[RolloutPlan]]

CONFIG = """base_model: org/model
rl: grpo
trl:
  use_vllm: true
  vllm_mode: colocate  # beside the trainer
  num_generations: 4
  max_completion_length: 256
  temperature: 0.7
vllm:
  gpu_memory_utilization: 0.3
  max_model_len: 2048
  tensor_parallel_size: 2
adapter: lora
lora_r: 16
sequence_len: 512
micro_batch_size: 2
gradient_accumulation_steps: 4
"""
SERVER = CONFIG.replace("  vllm_mode: colocate  # beside the trainer\n", "")
VERSIONS = {"axolotl": "0.18.0", "trl": "1.8.0", "transformers": "4.57.1", "vllm": "0.15.0"}


def test_the_sections_in_canonical_names(launches: Launches) -> None:
    (plan,) = launches({"config.yaml": CONFIG}, **VERSIONS)
    temperature = plan.get("sampling.temperature")
    assert temperature is not None and (temperature.value, temperature.key, temperature.line) == (
        0.7,
        "trl.temperature",
        8,
    )
    assert (plan.framework, plan.value("batch.per_device"), plan.value("lora.rank")) == ("axolotl", 2, 16)
    assert (plan.value("placement.mode"), plan.value("engine.gpu_memory_utilization")) == ("colocate", 0.3)
    assert (plan.value("engine.max_num_batched_tokens"), plan.value("engine.max_num_seqs")) == (4096, 16)
    assert plan.unread == ()


@pytest.mark.parametrize(("mode", "generations"), [("strided", None), ("structured", 4)])
def test_strided_samples_belong_to_their_row(launches: Launches, mode: str, generations: int | None) -> None:
    own = f"ebft:\n  mode: {mode}\n  n_samples_per_prompt: 4\n" if mode == "strided" else f"ebft:\n  mode: {mode}\n"
    (plan,) = launches({"config.yaml": CONFIG.replace("rl: grpo\n", f"rl: ebft\n{own}")}, **VERSIONS)
    assert plan.value("batch.generations") == generations


def test_what_colocate_does_not_hand_to_trl(launches: Launches) -> None:
    # core/trainers/grpo/__init__.py set_training_args_kwargs: memory and tensor parallel size alone
    (plan,) = launches({"config.yaml": CONFIG}, **VERSIONS)
    (unknown,) = plan.unknown
    assert (unknown.key, unknown.line, unknown.ignored) == ("vllm.max_model_len", 11, True)
    assert plan.value("engine.max_model_len") is None


def test_the_plugin_of_nemo_gym_hands_on_more(launches: Launches) -> None:
    plugin = "plugins:\n  - axolotl.integrations.nemo_gym.NemoGymPlugin\n"
    (plan,) = launches({"grpo.yaml": CONFIG + plugin}, **VERSIONS)
    assert plan.value("engine.max_model_len") == 2048
    assert "vllm.max_model_len" not in [option.key for option in plan.unknown]


def test_the_mode_that_is_not_given_is_a_server(launches: Launches) -> None:
    (plan,) = launches({"config.yaml": SERVER}, **VERSIONS)
    assert plan.value("placement.mode") == "server" and plan.unknown == ()
    # The server reads the same file: what it says of the engine, and no default.
    assert {name: s.key for name, s in plan.settings.items() if name.startswith("engine.")} == {
        f"engine.{name}": f"vllm.{name}" for name in ("gpu_memory_utilization", "tensor_parallel_size", "max_model_len")
    }
    (plan,) = launches({"run.sh": "axolotl train config.yaml\n", "config.yaml": SERVER}, **VERSIONS)
    assert not [name for name in plan.settings if name.startswith("engine.")]


def test_a_slip_in_the_algorithm_is_the_finding(launches: Launches) -> None:
    (plan,) = launches({"config.yaml": CONFIG.replace("rl: grpo", "rl: gpro")}, **VERSIONS)
    assert [one.value for one in plan.refused] == ["gpro"]


def test_both_commands_of_one_file_are_one_run(launches: Launches) -> None:
    run = (
        "CUDA_VISIBLE_DEVICES=0,1 axolotl vllm-serve config.yaml --max-model-len 1024 &\n"
        "CUDA_VISIBLE_DEVICES=2,3 axolotl train config.yaml\n"
    )
    (plan,) = launches({"run.sh": run, "config.yaml": SERVER}, **VERSIONS)
    assert plan.server is not None
    assert (plan.value("engine.max_model_len"), plan.value("engine.tensor_parallel_size")) == (1024, 2)
    assert (plan.value("placement.engine_devices"), plan.value("placement.trainer_devices")) == ([0, 1], [2, 3])
    assert (plan.value("process.total"), plan.value("batch.generation")) == (2, 16)


def test_the_launchers_own_options_follow_two_dashes(launches: Launches) -> None:
    run = "axolotl train config.yaml --launcher torchrun -- --nproc_per_node=4\n"
    (plan,) = launches({"run.sh": run, "config.yaml": CONFIG}, **VERSIONS)
    assert (plan.value("process.launcher"), plan.value("process.total")) == ("torchrun", 4)
    assert (plan.value("batch.generation"), plan.value("placement.engines")) == (32, 2)


@pytest.mark.parametrize(
    ("axolotl", "trl", "prompt"),
    # core/builders/rl.py: TRL's own 512 in 0.12.2, sequence_len in 0.14.0, nothing from 0.15.0
    [("0.12.2", "0.21.0", 512), ("0.14.0", "0.24.0", 300), ("0.15.0", "0.28.0", None)],
)
def test_the_longest_prompt(launches: Launches, axolotl: str, trl: str, prompt: int | None) -> None:
    config = CONFIG.replace("sequence_len: 512", "sequence_len: 300")
    (plan,) = launches({"config.yaml": config}, axolotl=axolotl, trl=trl, transformers="4.57.1")
    assert plan.value("lengths.prompt") == prompt
    context = None if prompt is None else prompt + 256
    assert plan.value("engine.max_model_len") == context


def test_native_adapters_on_the_server(launches: Launches) -> None:
    config = SERVER.replace("  use_vllm: true\n", "  use_vllm: true\n  vllm_lora_sync: true\n")
    run = "axolotl vllm-serve config.yaml\n"
    (plan,) = launches({"run.sh": run, "config.yaml": config}, **VERSIONS)
    assert (plan.role, plan.value("engine.enable_lora"), plan.value("engine.max_lora_rank")) == ("server", True, 16)
    (merged,) = launches({"run.sh": run, "config.yaml": SERVER}, **VERSIONS)
    assert merged.value("engine.enable_lora") is False


@pytest.mark.parametrize("text", ["base_model: m\nmicro_batch_size: 1\n", "base_model: m\nrl: dpo\n"])
def test_runs_that_do_not_sample_are_left_alone(launches: Launches, text: str) -> None:
    with pytest.raises(InputError, match="is axolotl's, and none of its launches with a rollout engine"):
        launches({"config.yaml": text})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("lengths.response", 512),
        ("batch.accumulation", 8),
        ("batch.generations", 8),
        ("engine.tensor_parallel_size", 1),
    ],
)
def test_a_fix_keeps_the_file_and_reads_back(launches: Launches, option: str, value: int) -> None:
    (plan,) = launches({"config.yaml": CONFIG}, **VERSIONS)
    dialect = by_name("axolotl")
    assert dialect is not None
    spelling = dialect.spell(Edit(option=option, value=value), plan)
    edited = apply([spelling])
    text = next(iter(edited.after.values()))
    assert spelling.write is not None and spelling.write.form is Form.YAML
    assert "colocate  # beside the trainer" in text
    (again,) = launches({"config.yaml": text}, **VERSIONS)
    assert again.value(option) == value
    assert not apply([dialect.spell(Edit(option=option, value=value), again)]).changed


def test_a_misspelled_key_is_named_and_one_that_may_be_a_plugins_is_not(launches: Launches) -> None:
    typo = CONFIG.replace("  temperature: 0.7\n", "  temperatur: 0.7\n") + "our_plugin_key: 1\n"
    (plan,) = launches({"config.yaml": typo}, **VERSIONS | {"axolotl": "0.12.0"})
    assert [(one.key, one.nearest[0], one.ignored) for one in plan.unknown if not one.why] == [
        ("trl.temperatur", "trl.temperature", True)
    ]


def test_a_slip_of_another_releases_key_is_named(launches: Launches) -> None:
    typo = CONFIG.replace("  temperature: 0.7\n", "  vllm_gpu_memory_utilisation: 0.4\n")
    for release in ("0.6.0", "0.18.0"):
        (plan,) = launches({"config.yaml": typo}, **VERSIONS | {"axolotl": release})
        assert "trl.vllm_gpu_memory_utilisation" in [one.key for one in plan.unknown]


def test_a_key_of_another_release_is_dropped_without_a_word(launches: Launches) -> None:
    old = CONFIG.replace("  temperature: 0.7\n", "  temperature: 0.7\n  vllm_gpu_memory_utilization: 0.4\n")
    (plan,) = launches({"config.yaml": old}, **VERSIONS | {"axolotl": "0.12.0"})
    (found,) = [one for one in plan.unknown if not one.why]
    assert (found.key, found.until, found.ignored) == ("trl.vllm_gpu_memory_utilization", "0.8.0", True)


def test_the_servers_engines_have_vllms_own_seed(launches: Launches) -> None:
    config = SERVER.replace("  tensor_parallel_size: 2\n", "  tensor_parallel_size: 2\n  data_parallel_size: 4\n")
    (plan,) = launches({"run.sh": "axolotl vllm-serve config.yaml\n", "config.yaml": config}, **VERSIONS)
    assert (plan.value("seed.per_replica"), plan.value("placement.engines")) == ("same", 4)
