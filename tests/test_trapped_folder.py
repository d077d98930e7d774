"""A folder that would run code wherever a program is careless about where it stands: nothing of it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes.environments import Environment

MODULES = ("sitecustomize", "usercustomize", "json", "typer", "rich", "rldoctor", "rldoctor_checks", "torch", "vllm")
PROGRAMS = ("nvidia-smi", "git", "py-spy", "gcc", "nvcc", "ibstat", "python", ".venv/bin/python", "venv/bin/python3")
LAUNCH = """\
source .venv/bin/activate
./venv/bin/python3 -m verl.trainer.main_ppo data.max_prompt_length=2048 actor_rollout_ref.rollout.name=vllm
"""


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    folder = tmp_path / "trapped"
    spring = f"{tmp_path}/sprung"
    for name in PROGRAMS:
        program = folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {spring}\n")
        program.chmod(0o755)
    (folder / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({spring!r}, 'w').close()\n")
    (folder / "a.pth").write_text(f"import os; os.system('touch {spring}')\n")
    (folder / "run.sh").write_text(LAUNCH)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("check", "run.sh", "--level", "static"),
        ("check", "run.sh", "--level", "imports"),
        ("plan", "run.sh"),
        ("triage", "run.sh"),
        ("compat",),
        ("hang",),
        ("machine",),
    ],
)
def test_nothing_of_the_folder_runs(trapped: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    python = Environment(tmp_path / "target").install("vllm", "0.11.0", {"vllm.py": ""}).python
    named = () if command[0] in ("triage", "hang") else ("--python", python)
    program = Path(sys.executable).with_name("rldoctor")
    done = subprocess.run([program, *command, *named], capture_output=True, text=True, cwd=trapped, timeout=120)
    assert done.returncode in (0, 1, 2) and done.stdout + done.stderr
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("setting", ['python = "./python"', 'plugins = ["evil"]', 'exec = "touch sprung"'])
def test_a_projects_settings_name_nothing_that_runs(trapped: Path, setting: str) -> None:
    (trapped / "rldoctor.toml").write_text(f"{setting}\n")
    program = Path(sys.executable).with_name("rldoctor")
    command: list[str | Path] = [program, "check", "run.sh", "--level", "static"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=trapped, timeout=120)
    assert done.returncode == 2 and "unknown setting" in done.stderr and done.stderr.count("\n") == 1


def test_the_trap_springs_where_python_imports_from_where_it_stands(trapped: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "json.tool", "-h"], capture_output=True, cwd=trapped, timeout=60)
    assert (tmp_path / "sprung").exists()
