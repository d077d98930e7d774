"""Overrides that Hydra and OmegaConf refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rldoctor.plan.model import RolloutPlan

Launches = Callable[..., list[RolloutPlan]]
PPO = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm"


def owners(plans: list[RolloutPlan]) -> list[tuple[str, str]]:
    return [(one.key, one.owner) for plan in plans for one in plan.refused]


@pytest.mark.parametrize(
    ("override", "refused"),
    [
        ("data.max_prompt_length=1,024", True),
        ("data.max_prompt_length=1024", False),
        ("data.train_files=[a.parquet,b.parquet]", False),
        ("trainer.project_name=\"'a,b'\"", False),
        ("--multirun data.max_prompt_length=512,1024", False),
    ],
)
def test_a_sweep_that_nobody_asked_for(launches: Launches, override: str, refused: bool) -> None:
    found = owners(launches({"run.sh": f"{PPO} {override}\n"}, verl="0.7.0"))
    assert [owner for _, owner in found] == ["Hydra"] * refused


def test_a_sweep_that_the_configuration_asks_for(launches: Launches) -> None:
    config = "defaults:\n  - ppo_trainer\n  - _self_\nhydra:\n  mode: MULTIRUN\n"
    run = f"{PPO} --config-path=conf --config-name=sweep data.max_prompt_length=512,1024\n"
    assert owners(launches({"run.sh": run, "conf/sweep.yaml": config}, verl="0.7.0")) == []


AREAL = "experiment_name: a\ntrial_name: b\nallocation_mode: vllm:d4+d4\nactor:\n  path: Qwen/Qwen3-8B\n"
LOCAL = "python3 -m areal.launcher.local run.py --config c.yaml"
LOADS = "from areal.api.cli_args import GRPOConfig, load_expr_config\nconfig = load_expr_config(args, GRPOConfig)\n"


@pytest.mark.parametrize(
    ("refers", "refused"),
    [
        ("${actor.model_path}", True),
        ("${actor.path}", False),
        ("${actor.attn_impl}", False),  # a default of the release
        ("${oc.env:TOKENIZER,none}", False),
    ],
)
def test_what_refers_to_a_key_that_is_not_there(launches: Launches, refers: str, refused: bool) -> None:
    files = {"run.sh": f"{LOCAL}\n", "c.yaml": f"{AREAL}tokenizer_path: {refers}\n", "run.py": LOADS}
    found = owners(launches(files, areal="0.5.3"))
    assert found == [("tokenizer_path", "OmegaConf")] * refused


def test_what_was_not_read_may_have_the_key(launches: Launches) -> None:
    files = {"run.sh": f"{LOCAL} $MORE\n", "c.yaml": AREAL + "tokenizer_path: ${actor.model_path}\n", "run.py": LOADS}
    assert owners(launches(files, areal="0.5.3")) == []


def test_what_a_configuration_by_itself_takes_from_others(launches: Launches) -> None:
    """Its defaults list is composed by the command that starts it alone."""
    text = "pretrain: m\nactor_infer:\n  strategy_args:\n    strategy_name: vllm\ncustom_envs:\n  A: ${custom_env.A}\n"
    assert owners(launches({"c.yaml": text}, roll="0.2.0")) == [("custom_envs.A", "OmegaConf")]
    assert owners(launches({"c.yaml": f"defaults:\n  - ../envs@_here_\n{text}"}, roll="0.2.0")) == []


def test_what_hydra_knows_of_its_job(launches: Launches) -> None:
    run = "'hydra.run.dir=outputs/${hydra.job.name}' trainer.default_local_dir='${trainer.folder}'"
    assert owners(launches({"run.sh": f"{PPO} {run}\n"}, verl="0.7.0")) == [("trainer.default_local_dir", "OmegaConf")]
