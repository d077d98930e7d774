"""TRL: what its scripts, commands and YAML files really run, release by release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.edits.edit import apply, save
from rldoctor.errors import InputError
from rldoctor.frameworks import by_name
from rldoctor.model import Edit
from rldoctor.plan.model import Form, RolloutPlan, Source

Launches = Callable[..., list[RolloutPlan]]

RUN = "accelerate launch --num_processes 4 train.py\n"
COLOCATE = """
from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig(
    per_device_train_batch_size=2,
    gradient_accumulation_steps=8,
    num_generations=8,
    max_prompt_length=1024,
    max_completion_length=3072,
    use_vllm=True,
    vllm_mode="colocate",
)
GRPOTrainer(model="org/model", args=args, reward_funcs=len)
"""


def colocated(launches: Launches, version: str, script: str = COLOCATE, run: str = RUN) -> RolloutPlan:
    (plan,) = launches({"run.sh": run, "train.py": script}, trl=version, transformers="4.57.1", vllm="0.10.2")
    return plan


def test_settings_keep_file_line_and_native_name(launches: Launches) -> None:
    plan = colocated(launches, "0.24.0")
    response, processes = plan.get("lengths.response"), plan.get("process.total")
    assert response is not None and processes is not None
    assert (response.value, response.key, response.line, response.form) == (
        3072,
        "max_completion_length",
        8,
        Form.KEYWORD,
    )
    assert response.file is not None and response.file.endswith("train.py")
    assert (processes.value, processes.key) == (4, "--num_processes")
    assert (plan.framework, plan.version, plan.value("model.path"), plan.unread) == ("TRL", "0.24.0", "org/model", ())


@pytest.mark.parametrize(
    ("version", "budget", "context", "logprobs", "sequences"),
    [
        # trl/trainer/grpo_trainer.py: 0.18.2 line 649, 0.19.1 line 657, 0.24.0 line 531, 0.26.2 line 661
        ("0.18.2", None, 4096, None, 16),
        ("0.19.1", 4096, 4096, None, 16),
        ("0.24.0", 4096, 4096, "processed_logprobs", 16),
        ("0.26.2", 4096, None, "processed_logprobs", 16),
    ],
)
def test_the_colocated_engine_gets_what_the_release_hard_codes(
    launches: Launches, version: str, budget: int | None, context: int | None, logprobs: str | None, sequences: int
) -> None:
    plan = colocated(launches, version)
    settings = {name: setting for name, setting in plan.settings.items() if setting.source is Source.DERIVED}
    given = {name: setting.value for name, setting in settings.items()}
    assert given.get("engine.max_num_batched_tokens") == budget
    assert given.get("engine.max_model_len") == context
    assert given.get("engine.logprobs_mode") == logprobs
    assert given.get("engine.max_num_seqs") == sequences
    assert given["engine.distributed_executor_backend"] == "external_launcher"


def test_without_a_version_nothing_is_derived_that_depends_on_it(tmp_path: Path, launches: Launches) -> None:
    (plan,) = launches({"run.sh": RUN, "train.py": COLOCATE})
    assert plan.value("placement.mode") == "colocate"
    assert plan.get("engine.max_model_len") is None and plan.get("engine.max_num_batched_tokens") is None
    assert plan.get("batch.generation") is None and plan.value("batch.train") == 64


def test_replicas_differ_in_their_seed_and_tensor_parallel_peers_share_it(launches: Launches) -> None:
    plan = colocated(launches, "0.24.0", COLOCATE.replace('"colocate",', '"colocate", vllm_tensor_parallel_size=2,'))
    assert plan.value("seed.per_replica") == "replica"
    assert plan.value("placement.engines") == 2
    seed = plan.get("engine.seed")
    assert seed is not None and seed.value is None and seed.unknown == "every replica has its own"
    assert plan.value("engine.max_num_seqs") == 32
    whole = colocated(launches, "0.24.0", COLOCATE.replace('"colocate",', '"colocate", vllm_tensor_parallel_size=4,'))
    assert (whole.value("placement.engines"), whole.value("engine.seed")) == (1, 0)


def test_a_request_seed_makes_all_requests_alike(launches: Launches) -> None:
    plan = colocated(launches, "0.24.0", COLOCATE.replace('"colocate",', '"colocate", generation_kwargs={"seed": 7},'))
    assert (plan.value("sampling.seed"), plan.value("seed.per_request")) == (7, "same")
    assert colocated(launches, "0.24.0").value("seed.per_request") == "none"


@pytest.mark.parametrize(("version", "mode"), [("0.24.0", "server"), ("1.0.0", "colocate")])
def test_the_mode_that_is_not_given_is_the_releases_own(launches: Launches, version: str, mode: str) -> None:
    script = COLOCATE.replace('    vllm_mode="colocate",\n', "").replace("    max_prompt_length=1024,\n", "")
    assert colocated(launches, version, script).value("placement.mode") == mode


@pytest.mark.parametrize(("version", "level"), [("0.23.1", 1), ("0.24.0", 1), ("0.25.1", 2), ("1.0.0", 2)])
def test_sleep_level(launches: Launches, version: str, level: int) -> None:
    script = COLOCATE.replace('"colocate",', '"colocate", vllm_enable_sleep_mode=True,').replace(
        "    max_prompt_length=1024,\n", ""
    )
    plan = colocated(launches, version, script)
    assert (plan.value("sleep.enabled"), plan.value("sleep.level")) == (True, level)
    assert plan.value("engine.enable_sleep_mode") is True


@pytest.mark.parametrize(
    ("version", "generation", "steps", "prompts"),
    [
        # 4 processes x 2 per device, accumulated 8 times, 8 completions for each prompt
        ("0.14.0", 64, 1, 8),  # per_device_train_batch_size counts prompts there
        ("0.16.1", 8, 1, 1),  # each micro step generates its own completions
        ("0.17.0", 64, 8, 8),
        ("0.24.0", 64, 8, 8),
    ],
)
def test_one_generation(launches: Launches, version: str, generation: int, steps: int, prompts: int) -> None:
    script = COLOCATE.replace('    vllm_mode="colocate",\n', "")
    plan = colocated(launches, version, script)
    assert plan.value("batch.generation") == generation
    assert plan.value("batch.steps_per_generation") == steps
    assert plan.value("batch.prompts") == prompts


def test_generation_batch_size_gives_the_steps(launches: Launches) -> None:
    plan = colocated(launches, "0.24.0", COLOCATE.replace('"colocate",', '"colocate", generation_batch_size=32,'))
    assert (plan.value("batch.generation"), plan.value("batch.steps_per_generation")) == (32, 4)
    assert plan.value("engine.max_num_seqs") == 8
    assert plan.value("batch.train") == 64


def test_accelerates_own_accumulation_does_not_count(launches: Launches) -> None:
    config = "num_processes: 2\ndeepspeed_config:\n  gradient_accumulation_steps: 16\n  zero_stage: 2\n"
    script = COLOCATE.replace("    gradient_accumulation_steps=8,\n", "")
    files = {"run.sh": "accelerate launch --config_file ds.yaml train.py\n", "train.py": script, "ds.yaml": config}
    (plan,) = launches(files, trl="0.24.0", transformers="4.57.1")
    assert (plan.value("batch.accumulation"), plan.value("trainer.zero_stage")) == (1, 2)


def test_the_device_of_its_own_before_there_was_a_server(launches: Launches) -> None:
    script = COLOCATE.replace('    vllm_mode="colocate",\n', '    vllm_device="cuda:1",\n')
    run = "export CUDA_VISIBLE_DEVICES=4,5\naccelerate launch --num_processes 1 train.py\n"
    plan = colocated(launches, "0.14.0", script, run)
    assert (plan.value("placement.mode"), plan.value("placement.engine_device")) == ("separate", "cuda:1")
    assert (plan.value("placement.trainer_devices"), plan.value("placement.engine_devices")) == ([4], [5])
    assert (plan.value("sampling.n"), plan.value("trainer.temperature")) == (8, 1.0)
    shared = colocated(launches, "0.14.0", script.replace("cuda:1", "cuda:0"), run)
    assert shared.value("placement.mode") == "colocate"


@pytest.mark.parametrize(
    ("version", "devices", "processes", "device"),
    [("0.14.0", "0,1", 1, "cuda:1"), ("0.15.2", "0", 1, "cuda:0"), ("0.15.2", "0,1,2", 2, "cuda:2")],
)
def test_auto_is_the_device_after_the_training_ones(
    launches: Launches, version: str, devices: str, processes: int, device: str
) -> None:
    run = f"export CUDA_VISIBLE_DEVICES={devices}\naccelerate launch --num_processes {processes} train.py\n"
    plan = colocated(launches, version, COLOCATE.replace('    vllm_mode="colocate",\n', ""), run)
    assert plan.value("placement.engine_device") == device


def test_server_and_trainer_of_one_file_are_one_run(launches: Launches) -> None:
    run = (
        "CUDA_VISIBLE_DEVICES=0,1 trl vllm-serve --model org/model --tensor_parallel_size 2 --max_model_len 2048 &\n"
        "CUDA_VISIBLE_DEVICES=2,3 accelerate launch --num_processes 2 train.py\n"
    )
    script = COLOCATE.replace('vllm_mode="colocate"', 'vllm_mode="server"')
    plan = colocated(launches, "0.24.0", script, run)
    assert plan.server is not None and plan.server.role == "server"
    assert (plan.value("engine.max_model_len"), plan.value("engine.tensor_parallel_size")) == (2048, 2)
    assert (plan.value("placement.engine_devices"), plan.value("placement.trainer_devices")) == ([0, 1], [2, 3])
    assert (plan.value("sync.backend"), plan.value("sync.port"), plan.value("sampling.n")) == ("nccl", 51216, 8)


def test_a_server_elsewhere_leaves_the_engine_open(launches: Launches) -> None:
    script = COLOCATE.replace('vllm_mode="colocate"', 'vllm_mode="server", vllm_gpu_memory_utilization=0.5')
    plan = colocated(launches, "0.24.0", script)
    assert not [name for name in plan.settings if name.startswith("engine.")]
    assert any("vllm_gpu_memory_utilization has no effect" in note.text and note.line == 10 for note in plan.notes)


def test_without_vllm_there_is_no_engine(launches: Launches) -> None:
    plan = colocated(launches, "1.0.0", "from trl import GRPOConfig\nGRPOConfig(num_generations=4)\n")
    assert (plan.value("placement.mode"), plan.value("rollout.backend")) == ("none", "hf")
    assert not [name for name in plan.settings if name.startswith("engine.")]


def test_plain_python_is_one_process(launches: Launches) -> None:
    plan = colocated(launches, "0.24.0", run="CUDA_VISIBLE_DEVICES=0,1,2,3 python train.py\n")
    assert (plan.value("process.launcher"), plan.value("process.total")) == ("none", 1)
    assert plan.value("batch.generation") == 16


def test_the_command_with_its_yaml_and_a_preset(launches: Launches) -> None:
    files = {
        "run.sh": "trl grpo --config grpo.yaml --accelerate_config zero3 --num_generations 4\n",
        "grpo.yaml": "model_name_or_path: org/model\nuse_vllm: true\nvllm_mode: colocate\nnum_generations: 8\n"
        "per_device_train_batch_size: 2\nenv:\n  VLLM_USE_V1: 1\n",
    }
    (plan,) = launches(files, trl="1.0.0", transformers="4.57.1")
    assert (plan.value("batch.generations"), plan.value("model.path")) == (4, "org/model")
    assert (plan.value("process.total"), plan.value("trainer.zero_stage")) == (8, 3)
    assert (plan.value("process.launcher"), plan.value("env.VLLM_USE_V1")) == ("accelerate", "1")
    assert plan.unknown == () and plan.unread == ()


def test_accelerates_options_do_not_pass_through_the_command_before_0_29(launches: Launches) -> None:
    files = {"run.sh": "trl grpo --use_vllm --num_processes 2\n"}
    (old,) = launches(files, trl="0.24.0")
    (new,) = launches(files, trl="1.0.0")
    assert any("does not hand it to accelerate" in note.text for note in old.notes)
    assert not any("does not hand it to accelerate" in note.text for note in new.notes)


def test_a_script_with_trls_parser_takes_the_command_line(launches: Launches) -> None:
    script = (
        "from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser\n"
        "parser = TrlParser((GRPOConfig, ModelConfig))\n"
        "args, model_args = parser.parse_args_and_config()\n"
        "GRPOTrainer(model=model_args.model_name_or_path, args=args)\n"
    )
    run = "accelerate launch --num_processes 2 train.py --model_name_or_path org/model --use_vllm --vllm_tensor 2\n"
    plan = colocated(launches, "0.24.0", script, run)
    assert (plan.value("model.path"), plan.value("rollout.enabled")) == ("org/model", True)
    assert plan.unknown == ()  # argparse completes --vllm_tensor


def test_a_script_with_its_own_parser_keeps_its_options(launches: Launches) -> None:
    script = (
        "import argparse\nfrom trl import GRPOConfig, GRPOTrainer\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--group', type=int, default=4)\n"
        "args = parser.parse_args()\nconfig = GRPOConfig(num_generations=args.group)\nGRPOTrainer(args=config)\n"
    )
    plan = colocated(launches, "0.24.0", script, "python train.py --group 6 --frobnicate\n")
    assert plan.value("batch.generations") == 6
    assert plan.unknown == () and plan.unread == ()


@pytest.mark.parametrize(
    ("version", "key", "nearest"),
    [("0.28.0", "max_prompt_length", ()), ("0.24.0", "vllm_gpu_memory_utilisation", ("vllm_gpu_memory_utilization",))],
)
def test_a_keyword_that_the_release_does_not_know(
    launches: Launches, version: str, key: str, nearest: tuple[str, ...]
) -> None:
    plan = colocated(launches, version, f"from trl import GRPOConfig\nGRPOConfig(\n    {key}=1,\n)\n")
    (unknown,) = plan.unknown
    assert (unknown.key, unknown.line, unknown.ignored) == (key, 3, False)
    assert set(nearest) <= set(unknown.nearest)


def test_a_yaml_key_that_the_parser_drops(launches: Launches) -> None:
    files = {"run.sh": "trl grpo --config grpo.yaml\n", "grpo.yaml": "use_vllm: true\nvllm_device: auto\n"}
    (old,) = launches(files, trl="0.18.2", transformers="4.52.4")
    (unknown,) = old.unknown
    assert (unknown.key, unknown.ignored) == ("vllm_device", True)


def test_fields_of_the_scripts_own_dataclasses_are_no_unknown_options(launches: Launches) -> None:
    script = (
        "from dataclasses import dataclass\nfrom trl import GRPOConfig, GRPOTrainer, TrlParser\n"
        "@dataclass\nclass Mine:\n    shards: int = 1\n"
        "args, mine = TrlParser((GRPOConfig, Mine)).parse_args_and_config()\nGRPOTrainer(args=args)\n"
    )
    plan = colocated(launches, "0.24.0", script, "python train.py --shards 4 --use_vllm\n")
    assert plan.unknown == () and plan.unread == ()


@pytest.mark.parametrize(
    ("config", "algorithm", "generations"),
    [("RLOOConfig", "rloo", 2), ("GRPOConfig", "grpo", 8), ("OnlineDPOConfig", "online_dpo", 2)],
)
def test_each_trainer_has_its_own_defaults(launches: Launches, config: str, algorithm: str, generations: int) -> None:
    plan = colocated(launches, "0.24.0", f'from trl import {config}\n{config}(use_vllm=True, vllm_mode="colocate")\n')
    assert (plan.value("trainer.algorithm"), plan.value("batch.generations")) == (algorithm, generations)


@pytest.mark.parametrize(("release", "generated"), [("0.23.1", 96), ("0.26.0", 32)])
def test_rloo_reads_older_names_for_three_releases(launches: Launches, release: str, generated: int) -> None:
    # rloo_config.py 0.23.1 line 588: num_mini_batches is written to steps_per_generation
    call = "RLOOConfig(use_vllm=True, vllm_mode='colocate', num_mini_batches=3)"
    plan = colocated(launches, release, f"from trl import RLOOConfig\n{call}\n")
    assert plan.value("batch.generation") == generated


def test_online_dpo_counts_prompts_and_adds_its_lengths(launches: Launches) -> None:
    # online_dpo_trainer.py 0.24.0 line 523: max_length + max_new_tokens, per_device x tp
    call = "OnlineDPOConfig(use_vllm=True, per_device_train_batch_size=3, vllm_mode='colocate')"
    script = f"from trl import OnlineDPOConfig\n{call}\n"
    plan = colocated(launches, "0.24.0", script)
    assert (plan.value("engine.max_model_len"), plan.value("engine.max_num_seqs")) == (576, 3)
    assert (plan.value("batch.prompts"), plan.value("batch.per_device")) == (12, 6)


def test_async_grpo_samples_from_a_server(launches: Launches) -> None:
    run = (
        "CUDA_VISIBLE_DEVICES=1 vllm serve org/model --port 8000 &\nCUDA_VISIBLE_DEVICES=0 accelerate launch train.py\n"
    )
    script = "from trl.experimental.async_grpo import AsyncGRPOConfig\nAsyncGRPOConfig(max_staleness=2)\n"
    plan = colocated(launches, "1.9.0", script, run)
    assert (plan.value("placement.mode"), plan.value("rollout.async"), plan.value("rollout.staleness")) == (
        "server",
        True,
        2,
    )
    assert plan.server is not None and plan.value("process.total") == 1


@pytest.mark.parametrize(
    ("files", "seen"),
    [
        ({"run.sh": "python train.py --vllm_mode colocate\n"}, "placement.mode"),
        ({"run.sh": "trl grpo --config absent.yaml --vllm_mode colocate\n"}, "placement.mode"),
        ({"train.py": "from trl import GRPOConfig\nGRPOConfig(beta=0.1, **load())\n"}, "trainer.kl_coefficient"),
    ],
)
def test_no_defaults_where_settings_were_not_read(launches: Launches, files: dict[str, str], seen: str) -> None:
    (plan,) = launches(files, trl="0.24.0", transformers="4.57.1")
    assert plan.value(seen) is not None
    trls = [name for name in plan.settings if not name.startswith("engine.")]
    assert not [name for name in trls if plan.settings[name].source is Source.DEFAULT]


def test_a_script_named_by_itself_may_be_started_by_any_launcher(launches: Launches) -> None:
    (plan,) = launches({"train.py": COLOCATE}, trl="0.24.0", transformers="4.57.1")
    assert plan.value("process.total") is None and plan.value("batch.generation") is None
    assert plan.value("batch.steps_per_generation") == 8


def test_a_dictionary_at_hand_is_read(launches: Launches) -> None:
    script = "from trl import GRPOConfig\nkwargs = dict(num_generations=4)\nGRPOConfig(beta=0.1, **kwargs)\n"
    (plan,) = launches({"train.py": script}, trl="0.24.0", transformers="4.57.1")
    assert (plan.value("batch.generations"), plan.value("batch.per_device")) == (4, 8)


@pytest.mark.parametrize(
    "text", ["from trl import SFTConfig\nSFTConfig()\n", "from trl import DPOConfig\nDPOConfig(beta=1)\n"]
)
def test_trainers_that_do_not_sample_are_no_launch_of_ours(launches: Launches, text: str) -> None:
    with pytest.raises(InputError, match="is TRL's, and none of its launches with a rollout engine"):
        launches({"train.py": text}, trl="0.24.0")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("lengths.response", 512),
        ("lengths.prompt", 256),
        ("batch.generations", 4),
        ("batch.per_device", 16),
        ("placement.mode", "server"),
        ("engine.gpu_memory_utilization", 0.4),
        ("engine.tensor_parallel_size", 2),
        ("sampling.temperature", 0.5),
        ("rollout.enabled", False),
        ("sleep.enabled", True),
    ],
)
@pytest.mark.parametrize("surface", ["python", "command", "yaml"])
def test_a_fix_reads_back_and_is_made_once(
    launches: Launches, tmp_path: Path, option: str, value: object, surface: str
) -> None:
    texts = {
        "python": {"train.py": COLOCATE},
        "command": {
            "run.sh": "trl grpo --use_vllm --vllm_mode colocate \\\n --max_completion_length 64 --num_generations 8\n"
        },
        "yaml": {
            "grpo.yaml": "use_vllm: true # mine\nvllm_mode: colocate\nmax_completion_length: 64\nnum_generations: 8\n"
        },
    }
    files = texts[surface]
    versions = {"trl": "0.24.0", "transformers": "4.57.1"}
    (plan,) = launches(files, **versions)
    dialect = by_name("TRL")
    assert dialect is not None
    edited = apply([dialect.spell(Edit(option=option, value=value), plan)])
    assert edited.refused == [] and edited.changed
    save(edited)
    changed = {name: (tmp_path / name).read_text() for name in files}
    (again,) = launches(changed, **versions)
    name = "engine.enable_sleep_mode" if option == "sleep.enabled" else option
    assert again.value(name) == value
    twice = apply([dialect.spell(Edit(option=option, value=value), again)])
    assert not twice.changed


def test_what_trl_computes_cannot_be_written(launches: Launches) -> None:
    plan = colocated(launches, "0.24.0")
    dialect = by_name("TRL")
    assert dialect is not None
    spelling = dialect.spell(Edit(option="engine.max_model_len", value=8192), plan)
    assert spelling.write is None and "prompt 1024 + completion 3072" in str(spelling.reason)
    newer = colocated(launches, "1.0.0", COLOCATE.replace("    max_prompt_length=1024,\n", ""))
    assert dialect.spell(Edit(option="engine.max_model_len", value=8192), newer).text == "vllm_max_model_length=8192"


def test_the_start_of_an_options_name_is_that_option(launches: Launches) -> None:
    """``HfArgumentParser`` is argparse, which takes a name for the only one that begins so."""
    (plan,) = launches({"run.sh": "trl grpo --num_gener 4 --per-device-train 2\n"}, trl="0.24.0")
    assert (plan.value("batch.generations"), plan.value("batch.per_device"), plan.unknown) == (4, 2, ())
    found = plan.get("batch.generations")
    assert found is not None and (found.key, found.line) == ("--num_gener", 1)


@pytest.mark.parametrize(
    ("more", "versions", "stored"),
    [
        ("", {"trl": "0.24.0", "transformers": "4.56.2"}, "float32"),
        ("--dtype bfloat16", {"trl": "0.24.0", "transformers": "4.56.2"}, None),
        ("--load_in_4bit true", {"trl": "0.24.0", "transformers": "4.56.2"}, None),
        ("", {"trl": "0.24.0", "transformers": "5.0.0"}, None),
        ("", {"trl": "0.24.0"}, None),
        ("--deepspeed zero3.json", {"trl": "0.24.0", "transformers": "4.56.2"}, None),
    ],
)
def test_weights_are_stored_as_transformers_loads_them(
    launches: Launches, more: str, versions: dict[str, str], stored: str | None
) -> None:
    run = f"accelerate launch --num_processes 4 -m trl.scripts.grpo --model_name_or_path m --bf16 true {more}\n"
    (plan,) = launches({"run.sh": run, "zero3.json": '{"zero_optimization": {"stage": 3}}'}, **versions)
    assert plan.value("trainer.param_dtype") == stored


def test_a_model_that_a_trainer_is_given_without_its_name(launches: Launches) -> None:
    script = "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig(use_vllm=True)\n"
    script += 'GRPOTrainer("./m", args=args).train()\n'
    (plan,) = launches({"train.py": script}, trl="0.24.0")
    model = plan.get("model.path")
    assert model is not None
    assert (model.value, model.line) == ("./m", 3)


def test_a_model_that_computes_activations_again_whatever_the_arguments_say(launches: Launches) -> None:
    plain = COLOCATE.replace("use_vllm=True", "use_vllm=True, gradient_checkpointing=False")
    assert colocated(launches, "0.24.0", plain).value("trainer.gradient_checkpointing") is False
    enabled = f"{plain}model.gradient_checkpointing_enable()\n"
    assert colocated(launches, "0.24.0", enabled).value("trainer.gradient_checkpointing") is True


def test_a_loaded_model_is_known_whatever_else_the_framework_computes(launches: Launches) -> None:
    load = 'm = AutoModelForCausalLM.from_pretrained("org/model", device_map="auto")\n'
    plan = colocated(launches, "0.24.0", load + COLOCATE.replace('model="org/model"', "model=m"))
    assert (plan.value("model.path"), plan.value("model.spread")) == ("org/model", True)
    setting = plan.get("model.path")
    assert setting is not None and setting.key == "from_pretrained"
    other = colocated(launches, "0.24.0", COLOCATE.replace('model="org/model"', "model=m")).get("model.path")
    assert other is not None and other.unknown is not None


@pytest.mark.parametrize("name", ["Distillation", "IWOPD", "SDFT", "SDPO", "SSD"])
def test_further_trainers_sample_while_they_train(name: str, launches: Launches) -> None:
    text = f"from trl.experimental import {name}Config, {name}Trainer\n"
    text += f"args = {name}Config(use_vllm=True, vllm_mode='colocate', vllm_tensor_parallel_size=2)\n"
    (plan,) = launches({"train.py": f"{text}{name}Trainer('org/model', args=args).train()\n"}, trl="1.9.0")
    assert (plan.framework, plan.value("placement.mode")) == ("TRL", "colocate")
    assert plan.value("engine.tensor_parallel_size") == 2 and plan.unknown == ()


@pytest.mark.parametrize("how", ["torchrun --nproc_per_node 2 -m reward_run", "python -m reward_run"])
def test_a_module_beside_the_launch_is_its_script(launches: Launches, how: str) -> None:
    files = {
        "run.sh": f"{how} --model_name_or_path org/model --num_generations 12 --use_vllm true\n",
        "reward_run.py": "from trl import GRPOConfig, TrlParser\n\nTrlParser((GRPOConfig,)).parse_args_and_config()\n",
    }
    (plan,) = launches(files, trl="0.24.0")
    assert (plan.framework, plan.value("batch.generations")) == ("TRL", 12)
