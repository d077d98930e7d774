"""``mpirun`` and ``mpiexec``: what they start, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldoctor.launch.recognise import read
from rldoctor.plan.model import RolloutPlan

HOSTS = "# two nodes\nh1 slots=8\n\nh2 slots=8 max_slots=16\n"


def started(folder: Path, command: str, hosts: str = HOSTS) -> RolloutPlan:
    (folder / "train.py").write_text("from trl import GRPOConfig, GRPOTrainer\nGRPOTrainer(args=GRPOConfig())\n")
    (folder / "hosts").write_text(hosts)
    (folder / "run.sh").write_text(f"{command}\n")
    (plan,) = read(folder / "run.sh")
    return plan


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mpirun -np 16 --hostfile hosts", {"scheduler.slots": 16, "process.nnodes": 2, "process.nproc": 8}),
        ("mpirun --allow-run-as-root --bind-to none -mca btl ^openib -np 16 -x A=b -hostfile=hosts",
         {"scheduler.step_tasks": 16, "scheduler.nodes": 2, "env.A": "b"}),
        ("mpirun --map-by ppr:4:node -H h1:8,h2:8", {"process.nproc": 4, "scheduler.step_tasks": 8}),
        ("mpiexec -f hosts -ppn 4 -n 8 -genv A b", {"process.nproc": 4, "env.A": "b"}),
        ("mpirun -np 8", {"process.total": 8, "scheduler.nodes": None}),
        ("mpirun -np $RANKS --hostfile absent", {"scheduler.step_tasks": None, "scheduler.nodes": None}),
        ("mpirun --oversubscribe -np 32 --hostfile hosts", {"scheduler.step_tasks": 32, "scheduler.slots": None}),
    ],
)  # fmt: skip
def test_its_options(command: str, expected: dict[str, Any], tmp_path: Path) -> None:
    plan = started(tmp_path, f"{command} python train.py")
    assert {name: plan.value(name) for name in expected} == expected
    assert plan.value("process.launcher") == "mpirun"


def test_a_host_without_slots_has_an_unknown_number(tmp_path: Path) -> None:
    plan = started(tmp_path, "mpirun -np 2 --hostfile hosts python train.py", "h1\nh2 slots=4\n")
    assert (plan.value("scheduler.nodes"), plan.value("scheduler.slots")) == (2, None)


def test_a_launcher_behind_it_is_the_launcher(tmp_path: Path) -> None:
    plan = started(tmp_path, "mpirun -np 2 -N 1 torchrun --nnodes 2 --nproc_per_node 8 train.py")
    assert (plan.value("process.launcher"), plan.value("scheduler.step_tasks")) == ("torchrun", 2)


def test_deepspeeds_hosts(tmp_path: Path) -> None:
    plan = started(tmp_path, "deepspeed --hostfile hosts --num_nodes 2 train.py")
    assert (plan.value("scheduler.nodes"), plan.value("scheduler.gpus_per_node")) == (2, 8)


def test_python_in_a_shell_that_srun_starts(tmp_path: Path) -> None:
    job = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=8 --gres=gpu:8\n"
    inside = started(tmp_path, job + "srun bash -c 'RANK=$SLURM_PROCID python train.py'")
    bare = started(tmp_path, job + "srun python train.py")
    for plan in (inside, bare):
        assert [plan.value(f"process.{name}") for name in ("launcher", "nnodes", "nproc")] == ["srun", 2, 8]
