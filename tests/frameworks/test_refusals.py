"""Values that an option of the release does not take, and those that it does."""

from __future__ import annotations

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


@pytest.mark.parametrize("more", ["--packing_samples true", "--packing_samples=False"])
def test_a_switch_takes_no_value(launches: Launches, more: str) -> None:
    (found,) = refused(launches, f"python3 -m openrlhf.cli.train_ppo_ray --bf16 {more}\n", **OPENRLHF)
    assert found.takes.startswith("no value")


@pytest.mark.parametrize(
    ("command", "versions"),
    [
        ("swift rlhf --rlhf_type grpo --vllm_mode colocate --use_vllm True --learning_rate 1e-6 --bf16 yes", SWIFT),
        ('ARGS="--rlhf_type grpo --vllm_mode colocate"; ALL="$ARGS --use_vllm true"; swift rlhf $ALL', SWIFT),
        ("swift rlhf --rlhf_type grpo --vllm_mode $MODE --max_length ${LENGTH}", SWIFT),
        ("swift rlhf --rlhf_type grpo --max_length '2048' --warmup_ratio 0", SWIFT),
        ("vllm serve m --max-model-len 16k --max-num-batched-tokens 1.5M --kv-cache-dtype fp8", {"vllm": "0.19.0"}),
        ("vllm serve m --max-model-len auto --enforce-eager --tensor-parallel-size=2", {"vllm": "0.19.0"}),
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


@pytest.mark.parametrize(("value", "taken"), [("float8", False), ("fp8_e4m3", True), ("auto", True)])
def test_what_the_engine_holds_against_its_choices_is_refused_behind_a_frameworks_key(
    launches: Launches, value: str, taken: bool
) -> None:
    key = "actor_rollout_ref.rollout.engine_kwargs.vllm"
    text = f"python3 -m verl.trainer.main_ppo +{key}.kv_cache_dtype={value} +{key}.load_format=mine\n"
    found = refused(launches, text, verl="0.7.0", vllm="0.11.0")
    assert [(one.value, "fp8" in one.accepted) for one in found] == ([] if taken else [(value, True)])
