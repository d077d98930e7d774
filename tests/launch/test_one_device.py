"""A script that is handed over by itself may be started in any way; on a machine with one device it is one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.formats.shell.machine import Device, Machine
from rldoctor.launch.recognise import read

SCRIPT = """
from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig(per_device_train_batch_size=8, num_generations=6)
GRPOTrainer(model="Qwen/Qwen2.5-1.5B-Instruct", args=args, reward_funcs=[len], train_dataset=[]).train()
"""
ONE = (Device("NVIDIA A100"),)


@pytest.mark.parametrize(
    ("machine", "total"),
    [
        (Machine(ONE), 1),
        (Machine(ONE, nodes=1), 1),
        (Machine(ONE, nodes=2), None),
        (Machine(ONE * 4), None),
        (Machine(), None),
    ],
)
def test_one_device_is_one_process(tmp_path: Path, machine: Machine, total: int | None) -> None:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    (plan,) = read(file, version_of={"trl": "0.23.0"}, machine=machine)
    assert plan.value("process.total") == total
