"""Ranks that meet are one run, whoever started them: seen, stopped, or not looked at."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rldoctor.hang import folder
from rldoctor.hang.model import Hang, hang_of
from rldoctor.hang.rendezvous import World, world
from tests.hang.conftest import Start
from tests.hang.test_hang import TORCHRUN
from tests.hang.test_stacks import SLEEPS

MEETS = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "WORLD_SIZE": "3"}
# A run's own name: other runs of these tests on the host are not to be joined.
RUN = str(os.getpid())
STARTS: dict[str, dict[str, str]] = {
    "by hand": {**MEETS, "MASTER_ADDR": f"host-{RUN}", "RANK": "{rank}"},
    "srun": {
        "SLURM_PROCID": "{rank}", "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS": "3", "SLURM_JOB_ID": RUN,
        "SLURM_STEP_ID": "0",
    },
    "mpirun": {"OMPI_COMM_WORLD_RANK": "{rank}", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": f"prterun-{RUN}@1"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({**MEETS, "RANK": "1", "LOCAL_WORLD_SIZE": "2"}, World("RANK", 1, 3, 2, "meets at 127.0.0.1:29511")),
        (
            {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
            World("SLURM_PROCID", 2, 4, None, "SLURM_PROCID 7 0"),
        ),
        ({**MEETS, "RANK": "1"}, World("RANK", 1, 3, 3, "meets at 127.0.0.1:29511", True)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, World("OMPI_COMM_WORLD_RANK", 0, 2, None, "")),
        # The tasks of a step that meet by address are one world with ranks that were started otherwise.
        (
            {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "MASTER_ADDR": "n0", "MASTER_PORT": "1"},
            World("SLURM_PROCID", 2, 4, None, "meets at n0:1"),
        ),
        # torchrun's agent numbers the ranks that it starts one after another.
        (
            {
                **MEETS,
                "RANK": "1",
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "2",
                "TORCHELASTIC_RUN_ID": "none",
            },
            World("RANK", 1, 3, 2, "meets at 127.0.0.1:29511", siblings=range(1, 3)),
        ),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"}, None),
        ({"RANK": "x", "WORLD_SIZE": "2"}, None),
        ({"RANK": "1"}, None),
        ({"RANK": "1", "WORLD_SIZE": "9" * 30}, None),
        ({}, None),
    ],
)
def test_the_world_of_a_process(variables: dict[str, str], found: World | None) -> None:
    assert world(variables) == found


def looked_at(at: Path, pid: int, name: str) -> tuple[Hang, dict[str, Any]]:
    """What ``rldoctor hang`` records and says of the run of a process."""
    command = [sys.executable, "-m", "rldoctor", "hang", str(pid), "--seconds", "1", "--folder", name]
    done = subprocess.run(
        [*command, "--format", "json"], cwd=at, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr and done.stdout, done.stderr
    return hang_of(folder.load((at / name,))), json.loads(done.stdout)


def started(start: Start, way: str, ranks: int = 3, **more: str) -> list[int]:
    """Processes with nothing in common but their variables."""
    pids = []
    for rank in range(ranks):
        variables = {name: value.format(rank=rank) for name, value in STARTS[way].items()}
        program = start(SLEEPS, f"{way.replace(' ', '_')}{rank}.py", **{**variables, **more})
        program.until("ready")
        pids.append(program.pid)
    return pids


def ranks(record: Hang) -> dict[int, str | None]:
    return {seen.pid: seen.rank for seen in record.processes if seen.role == "rank"}


class TestProcesses:
    @pytest.mark.parametrize("way", STARTS)
    def test_ranks_without_a_common_parent_are_one_run(self, way: str, start: Start, tmp_path: Path) -> None:
        pids = started(start, way)
        record, _ = looked_at(tmp_path, pids[1], "kept")
        assert ranks(record) == dict(zip(pids, "012", strict=True))

    def test_a_loop_of_a_shell(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "rank.py").write_text(SLEEPS)
        shell = f"for r in 0 1 2; do RANK=$r {sys.executable} rank.py & done; wait"
        meets = {**MEETS, "MASTER_ADDR": f"host-{RUN}"}
        program = start(f"import os\nos.execv('/bin/bash', ['bash', '-c', {shell!r}])\n", **meets)
        program.until("ready", times=3)
        record, _ = looked_at(tmp_path, program.pid, "kept")
        assert sorted(ranks(record).values(), key=str) == ["0", "1", "2"]

    def test_two_worlds_at_once_stay_apart(self, start: Start, tmp_path: Path) -> None:
        first, second = started(start, "by hand"), started(start, "by hand", MASTER_PORT="29522")
        assert set(ranks(looked_at(tmp_path, first[0], "first")[0])) == set(first)
        assert set(ranks(looked_at(tmp_path, second[2], "second")[0])) == set(second)

    def test_a_stopped_rank_is_stopped_and_an_unseen_one_was_not_looked_at(self, start: Start, tmp_path: Path) -> None:
        pids = started(start, "by hand", ranks=2)
        os.kill(pids[1], signal.SIGSTOP)
        try:
            record, report = looked_at(tmp_path, pids[0], "kept")
        finally:
            os.kill(pids[1], signal.SIGCONT)
        assert {seen.rank: seen.state for seen in record.processes}["1"] in ("T", "t")
        said = " ".join(finding["message"] for finding in report["findings"])
        assert "is stopped by a signal" in said and "any more" not in said


@pytest.mark.engine
def test_ranks_of_a_real_group_that_nobody_launched_together(
    start: Start, patient: Path, tmp_path: Path, py_spy: str
) -> None:
    variables = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "ARRIVES": "no",
        "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "100", "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "fr_"),
    }  # fmt: skip
    programs = [start(TORCHRUN, f"rank{rank}.py", patient, RANK=str(rank), **variables) for rank in (0, 1)]
    programs[1].until("scoring")
    for program in programs:
        # What is written after this makes the output young again.
        program.until("stepping")
        program.quiet_for(100)
    _, report = looked_at(tmp_path, programs[0].pid, "kept")
    (said,) = [f["message"] for f in report["findings"] if f["code"] == "RLD321" and "in group" not in f["message"]]
    assert said.startswith("rank 0 waits in wait at rank0.py:")
    assert "rank 1 is not there: it is at rank1.py:" in said and "in reward_function" in said
    assert report["incident"]["first_rank"] == "1"


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
