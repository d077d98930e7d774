"""An option of the program that starts the ranks is spelled as that takes it, whatever framework the script is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.api import Edit, RolloutPlan
from rldoctor.frameworks import by_name
from rldoctor.frameworks.spelled import Spelling
from tests.checks.launches import LaunchFile

TRL = "from trl import GRPOConfig, GRPOTrainer\nGRPOTrainer(args=GRPOConfig(output_dir='o', use_vllm=True))\n"
PORT = Edit(option="process.master_port", value=29501)


def planned(folder: Path, text: str, files: dict[str, str]) -> RolloutPlan:
    for name, script in files.items():
        (folder / name).write_text(script)
    (case,) = LaunchFile(folder, text, {}).cases()
    assert case.plan is not None
    return case.plan


def spell(plan: RolloutPlan) -> Spelling:
    dialect = by_name(plan.dialect or plan.framework)
    assert dialect is not None
    return dialect.spell(PORT, plan)


@pytest.mark.parametrize("script", ["import torch\n", TRL])
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("torchrun --nproc_per_node 2 train.py", "torchrun --master_port 29501 ..."),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py", "torchrun --master_port 29501 ..."),
        ("deepspeed --num_gpus 2 train.py", "deepspeed --master_port 29501 ..."),
        ("accelerate launch --num_processes 2 train.py", "accelerate launch --main_process_port 29501 ..."),
    ],
)
def test_what_is_not_given_yet_goes_before_the_script(tmp_path: Path, script: str, command: str, text: str) -> None:
    plan = planned(tmp_path, command + "\n", {"train.py": script})
    spelled = spell(plan)
    # What is added to a command would stand behind the script, where the script's parser refuses it.
    assert (spelled.text, spelled.write) == (text, None)


def test_what_is_given_is_changed_where_it_stands(tmp_path: Path) -> None:
    plan = planned(tmp_path, "torchrun --master_port 29500 train.py\n", {"train.py": TRL})
    spelled = spell(plan)
    assert (spelled.text, spelled.line) == ("--master_port 29501", 1)


def test_a_frameworks_own_program_takes_the_launchers_options_itself(tmp_path: Path) -> None:
    plan = planned(tmp_path, "trl grpo --model_name_or_path m --dataset_name d --num_processes 2\n", {})
    assert spell(plan).text == "--main_process_port 29501"
