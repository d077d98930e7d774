"""PBS's and LSF's options in batch scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldoctor.launch.recognise import read

TRAIN = "mpiexec -n 2 --ppn 1 torchrun --nnodes=2 --nproc_per_node=8 train.py\n"


def asked(folder: Path, lines: str, mark: str, command: str = TRAIN) -> dict[str, Any]:
    """The scheduler's part of the only plan of a script, without the group's name."""
    text = "#!/bin/bash\n" + "".join(f"{mark} {line}\n" for line in lines.split("\n")) + command
    (folder / "job").write_text(text)
    (plan,) = read(folder / "job")
    return {name[10:]: setting.value for name, setting in plan.settings.items() if name.startswith("scheduler.")}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("-l select=2:ncpus=64:ngpus=8:mpiprocs=1",
         {"nodes": 2, "gpus_per_node": 8, "gpus": 16, "tasks_per_node": 1}),
        ("-lselect=4:ngpus=1,place=scatter:excl", {"nodes": 4, "gpus_per_node": 1}),
        ("-l select=4:ngpus=1\n-l walltime=24:00:00", {"nodes": None, "gpus": 4}),  # they may share a node
        ("-l select=1:ngpus=4+2:ngpus=8", {"nodes": 3, "gpus_per_node": None, "shapes": [4, 8, 8]}),
        ("-l nodes=2:ppn=4:gpus=4", {"nodes": 2, "tasks_per_node": 4, "gpus_per_node": 4}),
        ("-l nodes=gpu01:gpus=4+gpu02:gpus=4", {"nodes": 2, "gpus_per_node": 4}),
        ("-N name\n-q gpu", {"nodes": None, "name": None}),
    ],
)  # fmt: skip
def test_what_pbs_is_asked_for(lines: str, expected: dict[str, Any], tmp_path: Path) -> None:
    found = asked(tmp_path, lines, "#PBS")
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('-n 2\n-R "span[ptile=1]"\n-gpu "num=8:mode=exclusive_process"', {"nodes": 2, "gpus_per_node": 8, "gpus": 16}),
        ('-n 16 -R "x"\n-R "rusage[mem=64G] span[hosts=1]"\n-gpu num=8/host', {"nodes": 1, "gpus_per_node": 8}),
        ('-n 8\n-R "span[hosts=1]"\n-gpu "num=1/task"', {"nodes": 1, "gpus_per_node": 8, "gpus": 8}),
        ('-n 4\n-gpu "num=2/task:j_exclusive=yes"', {"nodes": None, "gpus_per_task": 2, "gpus": 8}),
        ("-nnodes 2\n-gpu num=8", {"nodes": 2, "gpus_per_node": 8, "gpus": 16}),
        ("-J name\n-W 24:00", {"nodes": None, "gpus": None, "name": "lsf"}),
    ],
)
def test_what_lsf_is_asked_for(lines: str, expected: dict[str, Any], tmp_path: Path) -> None:
    found = asked(tmp_path, lines, "#BSUB")
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize("start", ["blaunch", "pbsdsh", "mpirun -np 2", "jsrun -n 2 -a 1 -g 8"])
def test_what_starts_it_on_other_nodes(start: str, tmp_path: Path) -> None:
    torchrun = "torchrun --nnodes=2 --nproc_per_node=8 train.py\n"
    assert asked(tmp_path, "-l select=2:ngpus=8", "#PBS", torchrun).get("first_node") is True
    assert asked(tmp_path, "-l select=2:ngpus=8", "#PBS", f"{start} {torchrun}").get("first_node") is None
