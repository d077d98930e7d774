"""Values that an option of the release does not take, and those that it does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from rldoctor_checks.rollout.option_unknown import check

from rldoctor.api import Applicability
from rldoctor.judge import judge_one
from rldoctor.plan.model import RefusedValue
from tests.checks.launches import LaunchFile
from tests.frameworks.conftest import Launches

SWIFT = {"ms_swift": "4.5.2", "transformers": "5.6.2"}
OPENRLHF = {"openrlhf": "0.9.0"}


def refused(launches: Launches, text: str, name: str = "run.sh", **versions: str) -> list[RefusedValue]:
    (plan,) = launches({name: text}, **versions)
    return list(plan.refused)


@pytest.mark.parametrize(
    ("command", "versions", "key", "likeliest"),
    [
        ("swift rlhf --rlhf_type grpo --vllm_mode colocated", SWIFT, "--vllm_mode", "colocate"),
        ("swift rlhf --rlhf_type=grop", SWIFT, "--rlhf_type", "grpo"),
        ("vllm serve m --kv-cache-dtype fp8_e5", {"vllm": "0.19.0"}, "--kv-cache-dtype", "fp8_e5m2"),
        (
            "vllm serve m --distributed-executor-backend Ray",
            {"vllm": "0.11.0"},
            "--distributed-executor-backend",
            "ray",
        ),
        ("python3 -m openrlhf.cli.train_ppo_ray --kl_estimator K3", OPENRLHF, "--kl_estimator", "k3"),
        ("KL=k33; python3 -m openrlhf.cli.train_ppo_ray --kl_estimator $KL", OPENRLHF, "--kl_estimator", "k3"),
    ],
)
def test_a_command_refuses_what_is_none_of_the_declared_choices(
    launches: Launches, command: str, versions: dict[str, str], key: str, likeliest: str
) -> None:
    (found,) = refused(launches, f"{command}\n", **versions)
    assert (found.key, found.accepted[0]) == (key, likeliest)


@pytest.mark.parametrize(
    ("option", "takes"),
    [
        ("--max_length 1e4", "a whole number"),
        ("--max_length 2048.0", "a whole number"),
        ("--max_completion_length 4,096", "a whole number"),
        ("--vllm_gpu_memory_utilization 90%", "a number"),
        ("--use_vllm Ture", "true or false"),
    ],
)
def test_a_value_that_the_type_cannot_read(launches: Launches, option: str, takes: str) -> None:
    (found,) = refused(launches, f"swift rlhf --rlhf_type grpo {option}\n", **SWIFT)
    assert found.takes.startswith(takes)


@pytest.mark.parametrize(
    ("option", "takes"),
    [
        ("--max-num-seqs auto", "a whole"),
        ("--max-num-seqs 1k", "a whole"),
        ("--gpu-memory-utilization auto", "a number"),
    ],
)
def test_a_word_or_a_unit_where_the_engine_s_parser_reads_neither(launches: Launches, option: str, takes: str) -> None:
    (found,) = refused(launches, f"vllm serve m {option}\n", vllm="0.11.0")
    assert found.takes.startswith(takes)


@pytest.mark.parametrize("option", ["max_completion_length", "use_vllm", "vllm_mode", "rlhf_type"])
def test_nobody_knows_whether_a_secret_is_refused(launches: Launches, option: str) -> None:
    text = f"HUB_PASS=1a2b3c4d5e\nswift rlhf --rlhf_type grpo --{option} $HUB_PASS\n"
    (plan,) = launches({"run.sh": text}, **SWIFT)
    assert plan.refused == ()
    assert not any("whole number" in note.text for note in plan.notes)


TRL = {"trl": "0.24.0", "transformers": "4.57.1"}


@pytest.mark.parametrize(
    ("option", "value", "takes"),
    [
        ("--max_length auto", "auto", "a whole number"),
        ("--max_length None", "None", "a whole number"),
        ("--max_length 16k", "16k", "a whole number"),
        ("--max_length=", "", "a whole number"),
        ("--learning_rate fast", "fast", "a number"),
        ("--max_length 1024 2048", "1024 2048", "one value, a whole number"),
        ("--max_length", "", "one value, a whole number"),
        ("--output_dir --use_vllm true", "", "one value"),
        ("--output_dir out put", "out put", "one value"),
    ],
)
def test_argparse_hands_one_word_to_python(launches: Launches, option: str, value: str, takes: str) -> None:
    (found,) = refused(launches, f"swift rlhf --rlhf_type grpo {option}\n", **SWIFT)
    assert found.value == value
    assert found.takes.startswith(takes)


@pytest.mark.parametrize(
    ("option", "fires"), [("--num_generations", True), ("--num_generations 8 9", False), ("--num_generations 8", False)]
)
def test_a_command_that_drops_what_is_left_over_drops_a_second_word(
    launches: Launches, option: str, fires: bool
) -> None:
    assert bool(refused(launches, f"trl grpo {option}\n", **TRL)) is fires


@pytest.mark.parametrize(("command", "versions"), [("swift rlhf", SWIFT), ("trl grpo", TRL)])
def test_the_start_of_several_options_is_none(launches: Launches, command: str, versions: dict[str, str]) -> None:
    (plan,) = launches({"run.sh": f"{command} --vllm_server 1\n"}, **versions)
    (found,) = plan.unknown
    assert {"vllm_server_host", "vllm_server_port"} < set(found.nearest)
    assert not found.ignored


# The parser of transformers over fields of the names and types that ms-swift has.
PARSER = """
import json, sys
from dataclasses import dataclass, field
from typing import Optional
from transformers import HfArgumentParser
@dataclass
class Config:
    rlhf_type: str = "dpo"
    num_generations: int = 8
    max_steps: int = -1
    max_length: Optional[int] = None
    learning_rate: float = 1e-6
    vllm_gpu_memory_utilization: float = 0.9
    output_dir: Optional[str] = None
    use_vllm: bool = False
    reward_funcs: Optional[list[str]] = None
said = []
for words in json.load(sys.stdin):
    try:
        HfArgumentParser(Config).parse_args_into_dataclasses(words)
        said.append(True)
    except (SystemExit, Exception):
        said.append(False)
json.dump(said, sys.stdout)
"""


@pytest.mark.engine
def test_what_the_parser_of_transformers_refuses_is_refused(launches: Launches, patient: Path) -> None:
    names = ("num_generations", "max_steps", "max_length", "learning_rate", "vllm_gpu_memory_utilization", "output_dir",
             "use_vllm", "reward_funcs")  # fmt: skip
    values = ("8", "-1", "0.5", "1e3", "16k", "auto", "None", "t", "yes", "n", "maybe", "8 9", "a b", "", "inf", "1_0")
    lines = [f"--{name} {value}".strip() for name in names for value in values]
    lines += [f"--{name}={value}" for name in names for value in values if " " not in value]
    done = subprocess.run(
        [patient, "-c", PARSER],
        input=json.dumps([["--rlhf_type", "grpo", *line.split()] for line in lines]),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = dict(zip(lines, json.loads(done.stdout), strict=True))
    # Which rewards there are is not the parser's to say.
    started = "swift rlhf --rlhf_type grpo --external_plugins p.py"
    here = {line: not refused(launches, f"{started} {line}\n", **SWIFT) for line in lines}
    assert here == said


@pytest.mark.parametrize("more", ["--packing_samples true", "--packing_samples=False"])
def test_a_switch_takes_no_value(launches: Launches, more: str) -> None:
    (found,) = refused(launches, f"python3 -m openrlhf.cli.train_ppo_ray --bf16 {more}\n", **OPENRLHF)
    assert found.takes.startswith("no value")


# Where it is no value of the option it is a word of its own, which argparse has no place for.
@pytest.mark.parametrize("more", ["--adam_offload yes", "--adam_offload 1 --zero_stage 3"])
def test_a_truth_value_behind_a_switch_is_left_over(launches: Launches, more: str) -> None:
    (found,) = refused(launches, f"python3 -m openrlhf.cli.train_ppo_ray --bf16 {more}\n", **OPENRLHF)
    assert (found.key, found.takes[:8]) == ("--adam_offload", "no value")


@pytest.mark.parametrize(
    ("module", "meant"),
    [
        ("verl.trainers.main_ppo", "verl.trainer.main_ppo"),
        ("verl.trainer.main_pppo", "verl.trainer.main_ppo"),
        ("verl.trainer.main_ppo", None),
        ("verl.trainer.main_mine", None),  # a fork may have these
        ("verl.trainer.main_dppo", None),
        ("verl.trainer.main_ppo2", None),
    ],
)
def test_a_module_that_no_release_has(launches: Launches, module: str, meant: str | None) -> None:
    command = f"python3 -m {module} actor_rollout_ref.rollout.name=vllm data.train_batch_size=8\n"
    found = [one for one in refused(launches, command, verl="0.7.0") if one.key == "python -m"]
    assert [(one.value, one.takes) for one in found] == ([(module, meant)] if meant else [])


def test_a_module_that_lies_beside_the_launch(launches: Launches) -> None:
    command = "python3 -m verl.trainer.main_pppo actor_rollout_ref.rollout.name=vllm data.train_batch_size=8\n"
    (plan,) = launches({"run.sh": command, "verl/trainer/main_pppo.py": "main = None\n"}, verl="0.7.0")
    assert [one for one in plan.refused if one.key == "python -m"] == []


# arg_utils.py, optional_type
@pytest.mark.parametrize(("value", "fires"), [("None", False), ("nothing", True), ("7", False)])
def test_an_option_of_the_engine_that_may_be_none(launches: Launches, value: str, fires: bool) -> None:
    found = refused(launches, f"vllm serve m --num-gpu-blocks-override {value}\n", vllm="0.11.0")
    assert [one.key for one in found] == ["--num-gpu-blocks-override"] * fires


@pytest.mark.parametrize(
    ("value", "fires"),
    [
        ('{"rope_scaling": {"factor": 2}}', False),
        ("{rope_scaling: 1}", True),
        ("$OVERRIDES", False),
        ('{"a":' * 9000, False),
    ],
)
def test_an_option_that_is_json(launches: Launches, value: str, fires: bool) -> None:
    quoted = value if value.startswith("$") else f"'{value}'"
    found = refused(launches, f"vllm serve m --hf-overrides {quoted}\n", vllm="0.20.0")
    assert [one.takes for one in found] == (["valid JSON"] if fires else [])


@pytest.mark.parametrize(
    ("command", "versions"),
    [
        ("swift rlhf --rlhf_type grpo --vllm_mode colocate --use_vllm True --learning_rate 1e-6 --bf16 yes", SWIFT),
        ('ARGS="--rlhf_type grpo --vllm_mode colocate"; ALL="$ARGS --use_vllm true"; swift rlhf $ALL', SWIFT),
        ("swift rlhf --rlhf_type grpo --vllm_mode $MODE --max_length ${LENGTH}", SWIFT),
        ("swift rlhf --rlhf_type grpo --max_length '2048' --warmup_ratio 0", SWIFT),
        ("vllm serve m --max-model-len 16k --max-num-batched-tokens 1.5M --kv-cache-dtype fp8", {"vllm": "0.19.0"}),
        ("vllm serve m --max-model-len auto --enforce-eager --tensor-parallel-size=2", {"vllm": "0.19.0"}),
        ("vllm serve m --distributed-executor-backend mine.executors.Own", {"vllm": "0.11.0"}),
        ("python3 -m openrlhf.cli.train_ppo_ray --packing_samples --bf16 --advantage_estimator rloo", OPENRLHF),
        ("python3 -m openrlhf.cli.train_ppo_ray --kl_estimator k4", {}),  # of which release is not known
    ],
)
def test_what_is_taken_or_not_known(launches: Launches, command: str, versions: dict[str, str]) -> None:
    assert refused(launches, f"{command}\n", **versions) == []


@pytest.mark.parametrize(("strategy", "fires"), [("vlm", True), ("vllm", False)])
def test_classes_that_hold_values_against_their_types_refuse_them_in_files_too(
    launches: Launches, strategy: str, fires: bool
) -> None:
    text = f"rollout_batch_size: 8\nactor_infer:\n  strategy_args:\n    strategy_name: {strategy}\n"
    found = refused(launches, text, "rlvr_config.yaml", roll="0.3.0")
    assert [value.accepted[0] for value in found] == (["vllm"] if fires else [])


# TRL's parser reads the texts of its file, pydantic and OmegaConf hold theirs against the types of classes.
@pytest.mark.parametrize(
    ("name", "text", "versions", "key", "takes"),
    [
        (
            "a.yaml",
            "rl: grpo\nbase_model: m\nmicro_batch_size: eight\n",
            {"axolotl": "0.18.0"},
            "micro_batch_size",
            "a",
        ),
        ("a.yaml", "rl: grpo\nbase_model: m\nlora_r: '8'\nseed: '42.0'\n", {"axolotl": "0.18.0"}, "", ""),
        ("a.yaml", "rl: grpo\nbase_model: m\nnum_epochs: '0.5'\n", {"axolotl": "0.18.0"}, "", ""),
        ("a.yaml", "rl: grpo\nbase_model: m\nseed: '4.2'\n", {"axolotl": "0.18.0"}, "seed", "a whole number"),
        ("a.yaml", "use_vllm: true\nnum_generations: eight\n", TRL, "num_generations", "a whole number"),
        ("a.yaml", "use_vllm: true\nlearning_rate: '1e-6'\nbf16: 'yes'\n", TRL, "", ""),
        ("a.yaml", "use_vllm: true\nbf16: 'maybe'\n", TRL, "bf16", "true or false"),
        ("rl.toml", '[orchestrator]\ngroup_size = "many"\n', {"prime_rl": "0.8.0"}, "orchestrator.group_size", "a"),
        ("rl.toml", '[orchestrator]\ngroup_size = 8\nalgo.type = "max_rl"\n', {"prime_rl": "0.8.0"}, "", ""),
    ],
)
def test_texts_in_files_that_are_no_value_of_a_declared_type(
    launches: Launches, name: str, text: str, versions: dict[str, str], key: str, takes: str
) -> None:
    found = refused(launches, text, name, **versions)
    assert [(one.key, one.takes.startswith(takes)) for one in found] == ([(key, True)] if key else [])


VERL = "python3 -m verl.trainer.main_ppo data.train_batch_size=8 "
GRPO = "python3 -m trl.scripts.grpo --use_vllm --reward_funcs "


# What the release's own code looks up: a list, a dictionary, what registers itself, what is compared.
@pytest.mark.parametrize(
    ("command", "versions", "value", "meant"),
    [
        (VERL + 'trainer.logger=\'["console","wandbb"]\'', {"verl": "0.7.0"}, "wandbb", "wandb"),
        (VERL + 'trainer.logger=\'["console","rl_insight"]\'', {"verl": "0.7.0"}, "rl_insight", ""),  # came with 0.9
        (VERL + "trainer.logger=tensorboard", {"verl": "0.7.0"}, "", ""),
        (VERL + "reward_model.reward_manager=naiv", {"verl": "0.7.0"}, "naiv", "naive"),
        (VERL + "reward_model.reward_manager=my_own", {"verl": "0.7.0"}, "", ""),
        (VERL + "reward_model.reward_manager=dapo2", {"verl": "0.7.0"}, "", ""),  # which a fork registers
        ("swift rlhf --rlhf_type grpo --deepspeed zero4", SWIFT, "zero4", ""),
        ("swift rlhf --rlhf_type grpo --deepspeed zero3_offload", SWIFT, "", ""),
        ("swift rlhf --rlhf_type grpo --deepspeed conf/zero4.json", SWIFT, "", ""),
        ("swift rlhf --rlhf_type grpo --reward_funcs format acuracy", SWIFT, "acuracy", "accuracy"),
        ("swift rlhf --rlhf_type grpo --reward_funcs mine --external_plugins p.py", SWIFT, "", ""),
        ("python swift/cli/rlhf_mine.py --rlhf_type grpo --reward_funcs mine", SWIFT, "", ""),
        ("swift rlhf --rlhf_type grpo --reward_funcs formats --external_plugins p.py", SWIFT, "", ""),
        ("swift rlhf --rlhf_type grpo --report_to wadnb", SWIFT, "wadnb", "wandb"),
        # ms-swift brings it along where transformers has none.
        ("swift rlhf --rlhf_type grpo --report_to swanlab", {"ms-swift": "3.7.0", "transformers": "4.49.0"}, "", ""),
        ("swift rlhf --rlhf_type grpo --report_to tensorboard swanlab", SWIFT, "", ""),
        (GRPO + "accurate_reward", TRL, "accurate_reward", "accuracy_reward"),
        (GRPO + "accuracy_reward mine.reward", TRL, "", ""),
        ("accelerate launch my_grpo.py --use_vllm --vllm_mode colocate --reward_funcs mine", TRL, "", ""),
    ],
)
def test_names_that_the_release_looks_up(
    launches: Launches, command: str, versions: dict[str, str], value: str, meant: str
) -> None:
    found = refused(launches, f"{command}\n", **versions)
    assert [one.value for one in found] == ([value] if value else [])
    assert not meant or found[0].accepted[0] == meant


@pytest.mark.parametrize(
    ("name", "text", "versions", "value"),
    [
        ("a.yaml", "rl: grpo\nbase_model: m\noptimizer: adamw_torch_fuse\n", {"axolotl": "0.18.0"}, "adamw_torch_fuse"),
        ("a.yaml", "rl: grpo\nbase_model: m\noptimizer: muon\n", {"axolotl": "0.18.0"}, ""),
        ("a.yaml", "rl: grpo\nbase_model: m\noptimizer: plugin_opt\n", {"axolotl": "0.18.0"}, ""),
        ("a.yaml", "rl: grpo\nbase_model: m\ntrl:\n  loss_type: grppo\n", {"axolotl": "0.18.0"}, "grppo"),
        ("config.yaml", "worker: {actor: {optim: {strategy: adamw8bit}}}\n", {"easyr1": "0.3.2"}, "adamw8bit"),
        ("config.yaml", "worker: {actor: {optim: {strategy: adamw_bf16}}}\n", {"easyr1": "0.3.2"}, ""),
    ],
)
def test_names_in_files(launches: Launches, name: str, text: str, versions: dict[str, str], value: str) -> None:
    found = refused(launches, text, name, trl="1.8.0", transformers="5.6.2", **versions)
    assert [one.value for one in found] == ([value] if value else [])


def test_a_yaml_file_names_what_registers_more(launches: Launches) -> None:
    text = "rlhf_type: grpo\nvllm_mode: colocate\nuse_vllm: true\nreward_funcs:\n  - mine\n"
    (found,) = launches({"run.sh": "swift rlhf run.yaml\n", "run.yaml": text}, **SWIFT)[0].refused
    assert found.value == "mine"
    more = {"run.sh": "swift rlhf run.yaml\n", "run.yaml": f"{text}external_plugins: [p.py]\n"}
    assert launches(more, **SWIFT)[0].refused == ()


def test_one_of_several_types_need_not_be_a_choice(launches: Launches) -> None:
    # bool | Literal["offload", "offload_disk"]
    text = "base_model: m\nrl: grpo\n"
    assert refused(launches, f"{text}gradient_checkpointing: true\n", "a.yaml", axolotl="0.18.0") == []
    (found,) = refused(launches, f"{text}trl:\n  vllm_mode: colocated\n", "a.yaml", axolotl="0.18.0")
    assert found.accepted[0] == "colocate"


def test_a_class_of_plain_fields_takes_anything(launches: Launches) -> None:
    script = "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig(output_dir='o', loss_type='colocated')\n"
    assert refused(launches, script, "train.py", trl="0.24.0", transformers="4.57.1") == []


def test_a_slip_of_a_name_that_the_trainer_asks_for(launches: Launches) -> None:
    script = "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig(use_vllm=True, vllm_mode='colocated')\n"
    (found,) = refused(launches, script, "train.py", trl="1.9.0", transformers="5.5.4")
    assert (found.key, found.accepted[0]) == ("vllm_mode", "colocate")


def test_the_finding_names_what_is_taken_and_writes_what_was_meant(tmp_path: Path) -> None:
    text = "swift rlhf --rlhf_type grpo --model m --vllm_mode colocated\n"
    launch = LaunchFile(tmp_path, text, {"ms-swift": "4.5.2", "transformers": "5.6.2"})
    (finding,) = judge_one(check, launch.cases()[0]).findings
    assert "refuses --vllm_mode colocated: it takes one of colocate, server" in finding.message
    assert finding.fixes[0].applicability is Applicability.UNSAFE


def test_the_finding_names_all_that_an_abbreviation_fits(tmp_path: Path) -> None:
    launch = LaunchFile(tmp_path, "swift rlhf --rlhf_type grpo --model m --vllm_server 1\n", SWIFT)
    (finding,) = judge_one(check, launch.cases()[0]).findings
    assert (
        "cannot tell which of --vllm_server_base_url, --vllm_server_group_port, --vllm_server_host" in finding.message
    )
    assert [fix.applicability for fix in finding.fixes] == [Applicability.DISPLAY]


@pytest.mark.parametrize(("value", "taken"), [("float8", False), ("fp8_e4m3", True), ("auto", True)])
def test_what_the_engine_holds_against_its_choices_is_refused_behind_a_frameworks_key(
    launches: Launches, value: str, taken: bool
) -> None:
    key = "actor_rollout_ref.rollout.engine_kwargs.vllm"
    text = f"python3 -m verl.trainer.main_ppo +{key}.kv_cache_dtype={value} +{key}.load_format=mine\n"
    found = refused(launches, text, verl="0.7.0", vllm="0.11.0")
    assert [(one.value, "fp8" in one.accepted) for one in found] == ([] if taken else [(value, True)])


def test_a_text_of_no_value_is_a_text_in_a_file(launches: Launches) -> None:
    # https://github.com/alibaba/ROLL/commit/0d3c15e4
    text = "rollout_batch_size: 64\nactor_infer:\n  strategy_args: {strategy_name: vllm}\nnorm_mean_type: %s\n"
    (none,) = refused(launches, text % "None", "rlvr.yaml", roll="0.1.1")
    assert (none.key, none.value, set(none.accepted)) == ("norm_mean_type", "None", {"batch", "group", "running"})
    assert refused(launches, text % "null", "rlvr.yaml", roll="0.1.1") == []
    assert refused(launches, text % "~", "rlvr.yaml", roll="0.1.1") == []


def test_a_key_that_stands_twice_is_refused_by_omegaconf_alone(launches: Launches) -> None:
    text = "rollout_batch_size: 64\nactor_infer:\n  strategy_args: {strategy_name: vllm}\nrollout_batch_size: 128\n"
    (twice,) = refused(launches, text, "rlvr.yaml", roll="0.2.1")
    assert (twice.key, twice.line) == ("rollout_batch_size", 4)
    assert "stands in line 1 already" in twice.why
    trl = "model_name_or_path: Qwen/Qwen3-4B\nuse_vllm: true\nnum_generations: 8\nnum_generations: 4\n"
    assert refused(launches, trl, "grpo.yaml", trl="0.24.0") == []


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [("0.2 0.28", False), ("$LOW $HIGH", False), ("0.2", True), ("0.2,0.28", True), ("0 1 2", True)],
)
def test_an_option_that_takes_two_values(launches: Launches, given: str, is_refused: bool) -> None:
    command = f"python3 -m openrlhf.cli.train_ppo_ray --eps_clip_low_high {given} --colocate_all_models\n"
    found = [one for one in refused(launches, command, **OPENRLHF) if one.key == "--eps_clip_low_high"]
    assert bool(found) is is_refused
    assert all(one.takes == "2 values, with blanks between them" for one in found)


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [
        ("reward_weights=[1.0]", True),
        ("reward_weights=[1.0, 0.5]", False),
        ("reward_weights=WEIGHTS", False),
        ("temperature=1.0", False),
    ],
)
def test_as_many_weights_as_reward_functions(launches: Launches, given: str, is_refused: bool) -> None:
    script = (
        "from trl import GRPOConfig, GRPOTrainer\nfrom mine import WEIGHTS, one, two\n"
        f"args = GRPOConfig(use_vllm=True, {given})\n"
        "GRPOTrainer(model='m', args=args, reward_funcs=[one, two]).train()\n"
    )
    found = [one for one in refused(launches, script, "train.py", trl="1.7.0") if one.key == "reward_weights"]
    assert bool(found) is is_refused


@pytest.mark.parametrize(
    ("command", "is_refused"),
    [
        (GRPO + "think_format_reward --reward_weights 0.7 0.3", True),
        (GRPO + "think_format_reward --reward_weights 0.7", False),
        # A script of its own takes such a word apart.
        ("accelerate launch my_grpo.py --use_vllm true --reward_funcs accuracy,format --reward_weights 0.7 0.3", False),
    ],
)
def test_one_word_is_one_reward_function(launches: Launches, command: str, is_refused: bool) -> None:
    found = refused(launches, f"{command}\n", **TRL)
    assert ("--reward_weights" in [one.key for one in found]) is is_refused


@pytest.mark.parametrize(
    ("rewards", "is_refused"), [("[*MORE, one]", False), ("functions()", False), ("[one, two, one]", True)]
)
def test_reward_functions_that_cannot_be_counted(launches: Launches, rewards: str, is_refused: bool) -> None:
    script = (
        "from trl import GRPOConfig, GRPOTrainer\nfrom mine import MORE, functions, one, two\n"
        "args = GRPOConfig(use_vllm=True, reward_weights=[1.0, 0.5])\n"
        f"GRPOTrainer(model='m', args=args, reward_funcs={rewards}).train()\n"
    )
    found = [one for one in refused(launches, script, "train.py", trl="1.7.0") if one.key == "reward_weights"]
    assert bool(found) is is_refused


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("rewards/math_rewrd.py", "rewards/math_reward.py"),
        ("rewards/math_rewards.py", "rewards/math_reward.py"),
        ("rewards/math_reward.py", None),
        ("rewards/code.py", None),  # nothing there is nearly so called: it may lie elsewhere
        ("elsewhere/math_rewrd.py", None),
        ("$REWARDS/math_rewrd.py", None),
    ],
)
def test_a_file_of_the_launchs_own_with_a_slip_in_its_name(launches: Launches, named: str, meant: str | None) -> None:
    command = f"python3 -m verl.trainer.main_ppo custom_reward_function.path={named} data.train_batch_size=64\n"
    (plan,) = launches({"run.sh": command, "rewards/math_reward.py": "def compute_score(): ...\n"}, verl="0.6.1")
    found = [one for one in plan.refused if one.key == "custom_reward_function.path"]
    assert [one.takes for one in found] == ([meant] if meant else [])


@pytest.mark.parametrize(
    ("given", "versions", "key"),
    [
        ("python3 -m verl.trainer.main_ppo trainer.resume_mode=resume", {"verl": "0.8.0"}, "trainer.resume_mode"),
        ("python3 -m verl.trainer.main_ppo model_engine=megatrom", {"verl": "0.8.0"}, "model_engine"),
        (
            "python3 -m verl.trainer.main config=c.yaml algorithm.kl_penalty=kl2",
            {"easyr1": "0.3.2"},
            "algorithm.kl_penalty",
        ),
        (
            "python3 -m skyrl.train.entrypoints.main_base trainer.algorithm.loss_reduction=token-mean",
            {"skyrl": "0.3.0"},
            "trainer.algorithm.loss_reduction",
        ),
    ],
)
def test_code_that_refuses_what_it_compares_with_nothing(
    launches: Launches, given: str, versions: dict[str, str], key: str
) -> None:
    assert key in [one.key for one in refused(launches, f"{given}\n", **versions)]


def test_a_registry_may_have_words_that_no_comparison_tells(launches: Launches) -> None:
    command = "python3 -m skyrl.train.entrypoints.main_base trainer.algorithm.policy_loss_type=gspo\n"
    assert refused(launches, command, skyrl="0.3.0") == []
