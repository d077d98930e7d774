"""The Slurm examples, with a small ``srun`` that starts its command once for each node, as Slurm does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.examples.conftest import ROOT

SLURM = ROOT / "examples" / "slurm"
# Options come first; the rest is started on each of two nodes, and with --kill-on-bad-exit the first failure counts.
SRUN = '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n"$@" && "$@"\n'
LOGGER = '#!/bin/sh\nprintf "%s\\n" "$*" >> "$HOME/syslog"\n'


@pytest.fixture
def node(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    """A node's environment."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("srun", SRUN), ("logger", LOGGER)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    job = {"SLURM_JOB_NAME": "grpo", "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "RLDOCTOR": "rldoctor"}
    return {**environment, **job, "PATH": f"{programs}:{environment['PATH']}"}


def bash(script: Path, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(script)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", ["train.sbatch", "prolog.sh"])
def test_bash_reads_it(name: str) -> None:
    done = subprocess.run(["bash", "-n", str(SLURM / name)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_launch_that_cannot_work_is_not_started(project: Path, node: dict[str, str]) -> None:
    project.joinpath("train.sh").write_text("touch started\n" + project.joinpath("launch_sick.sh").read_text())
    done = bash(SLURM / "train.sbatch", project, node)
    assert done.returncode != 0
    assert not (project / "started").exists()


def test_the_log_of_a_run_that_fails_is_judged(project: Path, node: dict[str, str]) -> None:
    (project / "launch_well.sh").rename(project / "train.sh")  # fails at once: there is no verl here
    (project / "doctor").write_text('#!/bin/sh\n[ "$1" = check ] || exec rldoctor "$@"\n')
    (project / "doctor").chmod(0o755)
    trace = "Traceback (most recent call last):\n  File \"/app/train.py\", line 1, in <module>\nKeyError: 'x'\n"
    (project / "grpo-7.log").write_text(trace)
    done = bash(SLURM / "train.sbatch", project, {**node, "RLDOCTOR": str(project / "doctor"), "LAUNCH": "train.sh"})
    assert done.returncode == 1
    assert "KeyError: 'x'" in done.stdout, done.stderr


@pytest.mark.parametrize(("status", "lines"), [(0, 0), (1, 1), (2, 0)])
def test_a_prolog_never_drains_its_node(tmp_path: Path, node: dict[str, str], status: int, lines: int) -> None:
    doctor = tmp_path / "doctor"
    doctor.write_text(f"#!/bin/sh\necho 'error RLD113: too small'\nexit {status}\n")
    doctor.chmod(0o755)
    assert bash(SLURM / "prolog.sh", tmp_path, {**node, "RLDOCTOR": str(doctor)}).returncode == 0
    log = tmp_path / "syslog"
    said = log.read_text().splitlines() if log.exists() else []
    assert len(said) == lines
    assert all("job 7 on n1: error RLD113" in line for line in said)


def test_a_prolog_judges_the_node_itself(tmp_path: Path, node: dict[str, str]) -> None:
    done = bash(SLURM / "prolog.sh", tmp_path, node)
    assert (done.returncode, done.stdout) == (0, "")
