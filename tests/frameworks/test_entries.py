"""What a launch names and that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rldoctor.plan.model import RolloutPlan

Launches = Callable[..., list[RolloutPlan]]
CONFIG = "data:\n  train_files: hiyouga/math12k@train\nworker:\n  reward:\n    reward_function: {reward}\n"
START = "python3 -m verl.trainer.main config=examples/config.yaml\n"
SCORE = "def compute_score(reward_inputs):\n    return []\n"
ACCELERATE = "distributed_type: MULTI_GPU\nnum_processes: 8\n"
SCRIPT = "from trl import GRPOConfig, GRPOTrainer, TrlParser\nGRPOTrainer('m', args=GRPOConfig()).train()\n"


def keys(plans: list[RolloutPlan]) -> list[str]:
    return [one.key for plan in plans for one in plan.refused]


@pytest.mark.parametrize(
    ("reward", "script", "missing"),
    [
        ("./examples/rewards/gsm8k.py:compute_score", START, True),
        ("./examples/reward_function/math.py:compute_score", START, False),
        # One that is made, or that lies outside of what is at hand.
        ("./examples/rewards/gsm8k.py:compute_score", "cp /data/gsm8k.py examples/rewards/\n" + START, False),
        ("./rewards/gsm8k.py:compute_score", "git clone https://host/team/rewards rewards\n" + START, False),
        ("/data/rewards/gsm8k.py:compute_score", START, False),
        ("../rewards/gsm8k.py:compute_score", START, False),
        ("gsm8k.py:compute_score", START, False),
    ],
)
def test_a_file_of_its_own_where_another_lies(launches: Launches, reward: str, script: str, missing: bool) -> None:
    files = {
        "examples/run.sh": script,
        "examples/config.yaml": CONFIG.format(reward=reward),
        "examples/reward_function/math.py": SCORE,
    }
    assert ("worker.reward.reward_function" in keys(launches(files, easyr1="0.3.2"))) is missing


@pytest.mark.parametrize(("script", "missing"), [("grpo_vision.py", True), ("grpo_vlm.py", False)])
def test_a_script_that_is_not_there(launches: Launches, script: str, missing: bool) -> None:
    command = f"accelerate launch --config_file accelerate/zero3.yaml examples/scripts/{script} --use_vllm true\n"
    files: dict[str, Any] = {"run.sh": command, "accelerate/zero3.yaml": ACCELERATE}
    there = {"examples/scripts/grpo_vlm.py": SCRIPT}
    assert ("script" in keys(launches({**files, **there}, trl="0.24.0"))) is missing
    # Where nothing else of the folder is at hand, nobody can say.
    alone = {"run.sh": f"accelerate launch examples/scripts/{script} --use_vllm true --num_generations 8\n"}
    assert "script" not in keys(launches(alone, trl="0.24.0"))


@pytest.mark.parametrize(
    ("before", "script"),
    [
        ("git clone https://host/team/open-recipes.git\n", "open-recipes/grpo.py"),
        ("tar xf recipes.tgz\n", "recipes/grpo.py"),
        ('cd "$RECIPES"\n', "examples/grpo.py"),
    ],
)
def test_a_script_that_lies_elsewhere(launches: Launches, before: str, script: str) -> None:
    run = f"{before}accelerate launch --config_file accelerate/zero3.yaml {script} --use_vllm true\n"
    files = {"run.sh": run, "accelerate/zero3.yaml": ACCELERATE, "examples/other.py": SCRIPT}
    assert "script" not in keys(launches(files, trl="0.24.0"))


@pytest.mark.parametrize(
    ("used", "slipped"),
    [("$MODEL_PTAH", True), ("${MODEL_PTAH}", True), ("$MODEL_PATH", False), ("$CHECKPOINT", False)],
)
def test_a_variable_that_nothing_sets(launches: Launches, used: str, slipped: bool) -> None:
    run = f"MODEL_PATH=Qwen/Qwen2.5-7B\npython3 -m verl.trainer.main_ppo actor_rollout_ref.model.path={used}\n"
    assert ("actor_rollout_ref.model.path" in keys(launches({"run.sh": run}, verl="0.7.0"))) is slipped


def test_a_variable_that_its_caller_sets(launches: Launches) -> None:
    run = "MODEL_PATH=Qwen/Qwen2.5-7B\npython3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$MODEL_PTAH\n"
    assert keys(launches({"run.sh": run}, {"MODEL_PTAH": "Qwen/Qwen3-8B"}, verl="0.7.0")) == []


@pytest.mark.parametrize(
    "script",
    [
        "# NNODES=2 bash run.sh\nNODES=4\n{start}$NNODES\n",
        ": ${{NNODES:?}}\nNODES=4\n{start}$NNODES\n",
        "NODES=$(wc -l < hosts)\necho $NODES\n{start}$NNODES\n",
        'eval "$(cluster variables)"\nNODES=4\n{start}$NNODES\n',
        "source cluster.sh\nNODES=4\n{start}$NNODES\n",
    ],
)
def test_a_variable_of_its_caller_that_looks_like_another(launches: Launches, script: str) -> None:
    start = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm trainer.nnodes="
    assert keys(launches({"run.sh": script.format(start=start)}, verl="0.7.0")) == []


def test_a_name_of_a_script_is_no_variable(launches: Launches) -> None:
    script = "from settings import *\nRATES = [1e-6]\nGRPOConfig(use_vllm=True, learning_rate=RATE)\n"
    assert keys(launches({"train.py": f"from trl import GRPOConfig\n{script}"}, trl="0.24.0")) == []
