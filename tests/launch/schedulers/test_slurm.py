"""Slurm's options, in batch scripts and on command lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldoctor.launch.recognise import read

TRAIN = "torchrun --nnodes=2 --nproc_per_node=8 train.py\n"


def asked(folder: Path, text: str, **environment: str) -> dict[str, Any]:
    """The scheduler's part of the only plan of a script, without the group's name; unknown ones are None."""
    (folder / "job.slurm").write_text(text)
    (plan,) = read(folder / "job.slurm", environment=environment)
    return {name[10:]: setting.value for name, setting in plan.settings.items() if name.startswith("scheduler.")}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("--nodes=2\n--gres=gpu:8", {"nodes": 2, "gpus_per_node": 8, "gpus": 16}),
        ("-N 2\n--gres gpu:h100:8", {"nodes": 2, "gpus_per_node": 8, "gpus": 16}),
        ("-N2 -n 4 --gres=gpu:a100:4,nvme:1 # don't touch", {"nodes": 2, "tasks": 4, "gpus_per_node": 4, "gpus": 8}),
        ("--gres=gpu:a100:4,gpu:v100:2", {"gpus_per_node": 6}),
        ("--gres=gpu", {"gpus_per_node": 1}),
        ("--gres=nvme:1", {}),
        ("--nodes=1 --gpus=h200:4", {"nodes": 1, "gpus": 4, "gpus_per_node": 4}),
        ("--ntasks=16 --ntasks-per-node=8 --gpus-per-task=1",
         {"tasks": 16, "tasks_per_node": 8, "gpus_per_task": 1, "nodes": 2, "gpus_per_node": 8, "gpus": 16}),
        ("--nodes=2-4 --gpus-per-node=8", {"nodes": None, "gpus_per_node": 8}),
        ("--nodes=$COUNT", {"nodes": None}),
        ("--nodes=2\N{SUPERSCRIPT TWO} --gres=gpu:\N{SUPERSCRIPT TWO}", {"nodes": None, "gpus_per_node": None}),
        ("--exclusive --mem=0 --job-name=x", {}),
    ],
)  # fmt: skip
def test_what_a_batch_script_asks_for(lines: str, expected: dict[str, Any], tmp_path: Path) -> None:
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines.split("\n")) + "srun " + TRAIN
    found = asked(tmp_path, text)
    assert {name: found.get(name) for name in expected} == expected
    assert all(found.get(name) is None for name in ("nodes", "gpus_per_node", "tasks") if name not in expected)


def test_lines_behind_the_first_command_are_no_directives(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2\n\necho start\n#SBATCH --nodes=9\nsrun " + TRAIN
    assert asked(tmp_path, text)["nodes"] == 2


@pytest.mark.parametrize(
    ("srun", "tasks", "visible", "step"),
    [
        ("srun", 2, 8, "whole"),
        ("srun --ntasks-per-node=8", 16, 8, "whole"),
        ("srun -n 4 -u --cpus-per-task 12 --export ALL", 4, 8, "whole"),
        ("srun -n4 --gpus-per-task=2 -K --mpi=pmix", 4, 2, "whole"),
        ("srun -N1 -n1 -w $head", 1, 8, "part"),
        ("srun --label --gres=gpu:4 --kill-on-bad-exit=1 --", 2, 4, "whole"),
        ("srun --ntasks=$TASKS", None, 8, "whole"),
    ],
)
def test_what_a_step_starts(srun: str, tasks: int | None, visible: int, step: str, tmp_path: Path) -> None:
    found = asked(tmp_path, f"#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:8\n{srun} {TRAIN}")
    assert (found.get("step_tasks"), found["visible"], found["step"]) == (tasks, visible, step)


def test_a_step_takes_the_tasks_of_its_job(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gres=gpu:8\n"
    assert asked(tmp_path, text + "srun " + TRAIN)["step_tasks"] == 8
    # With one node of its own, how the job's tasks count is for Slurm to say.
    assert asked(tmp_path, text + "srun --nodes=1 " + TRAIN).get("step_tasks") is None


@pytest.mark.parametrize(
    "start",
    ["sbatch --nodes=4 --gpus-per-node 4 job2.slurm", "sbatch -N4 --parsable --gres=gpu:4 job2.slurm 1 2"],
)
def test_sbatchs_own_words_come_before_the_scripts(start: str, tmp_path: Path) -> None:
    (tmp_path / "job2.slurm").write_text(f"#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:8\nsrun {TRAIN}")
    found = asked(tmp_path, f"{start}\n")
    assert (found["nodes"], found["gpus_per_node"], found["gpus"], found["step_tasks"]) == (4, 4, 16, 4)


def test_a_wrapped_command_is_found(tmp_path: Path) -> None:
    found = asked(tmp_path, f"sbatch --nodes=2 --gres=gpu:8 --wrap 'srun {TRAIN.strip()}'\n")
    assert (found["nodes"], found["step_tasks"], found["visible"]) == (2, 2, 8)


@pytest.mark.parametrize(
    ("command", "alone"),
    [
        (TRAIN, True),
        ("# srun does not work here\n" + TRAIN, True),
        ("srun " + TRAIN, None),
        ("for node in $NODES; do\n  ssh $node bash start.sh &\ndone\n" + TRAIN, None),
        ("mpirun -np 2 " + TRAIN, None),
        ("pdsh -R slurm hostname\n" + TRAIN, None),
    ],
)
def test_whether_other_nodes_are_reached(command: str, alone: bool | None, tmp_path: Path) -> None:
    assert asked(tmp_path, f"#!/bin/bash\n#SBATCH --nodes=2\n{command}").get("first_node") is alone


def test_a_script_without_a_scheduler_has_none(tmp_path: Path) -> None:
    assert asked(tmp_path, "#!/bin/bash\n" + TRAIN) == {}


def test_a_framework_that_names_no_nodes_has_its_own_default(tmp_path: Path) -> None:
    (tmp_path / "job.slurm").write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:8\npython -m verl.trainer.main_ppo a=1\n"
    )
    (plan,) = read(tmp_path / "job.slurm")
    assert plan.get("placement.nodes") is None or plan.value("placement.nodes") == 1


@pytest.mark.parametrize(
    ("srun", "nodes", "visible"),
    [("srun", 2, 8), ("srun --het-group=0", 2, 8), ("srun --het-group=1", 1, 4), ("srun --pack-group 1", 1, 4),
     ("srun --het-group=0,1", None, None), ("srun --het-group=7", None, None)],
)  # fmt: skip
def test_a_step_of_a_heterogeneous_job_has_what_its_component_asks_for(
    srun: str, nodes: int | None, visible: int | None, tmp_path: Path
) -> None:
    text = "#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=8\n#SBATCH hetjob\n#SBATCH -N 1 --gpus-per-node=4\n"
    found = asked(tmp_path, f"{text}{srun} {TRAIN}")
    assert (found.get("nodes"), found.get("visible")) == (nodes, visible)
