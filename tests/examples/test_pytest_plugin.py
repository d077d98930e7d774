"""``pytest --rldoctor``: run by pytest itself, in a project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def test_of_its_own(project: Path) -> None:
    """The project has one test beside its launches."""
    (project / "test_own.py").write_text("def test_of_the_project():\n    pass\n")


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project), *arguments],
        cwd=project, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_each_launch_is_a_test_beside_the_projects_own(project: Path) -> None:
    done = run(
        project,
        "--rldoctor",
        "launch_sick.sh",
        "--rldoctor",
        "launch_well.sh",
        "--rldoctor-assume",
        "machine.json",
        "-v",
    )
    assert done.returncode == 1, done.stderr
    assert "1 failed, 2 passed" in done.stdout
    assert "error RLD202 (launch_sick.sh:6)" in done.stdout
    assert "actor_rollout_ref.rollout.max_num_batched_tokens=10240" in done.stdout
    assert "Traceback" not in done.stdout and "pytest_plugin.py" not in done.stdout


def test_the_projects_settings_count(project: Path) -> None:
    (project / "rldoctor.toml").write_text('[[ignore]]\ncode = "RLD202"\nreason = "known"\n')
    done = run(project, "--rldoctor", "launch_sick.sh", "--rldoctor-assume", "machine.json")
    assert done.returncode == 0, done.stdout


def test_what_cannot_be_judged_fails(project: Path) -> None:
    done = run(project, "--rldoctor", "nothere.sh", "--rldoctor", "launch_well.sh", "--rldoctor-assume", "vllm==0.7.3")
    assert "nothere.sh: no such file" in done.stdout
    assert "cannot judge" in done.stdout
    assert "2 failed, 1 passed" in done.stdout


def test_secrets_stay_out_of_what_it_says(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "Sesame-17-open-23")
    (project / "launch_sick.sh").write_text("vllm serve m --max-model-len Sesame-17-open-23 --seed x\n")
    launches = ("--rldoctor", "launch_sick.sh", "--rldoctor", "Sesame-17-open-23.sh")
    done = run(project, *launches, "--rldoctor-assume", "machine.json", "-q", "-q")
    assert "<removed:HF_TOKEN>" in done.stdout
    assert not [line for line in done.stdout.splitlines() if "Sesame" in line and "Error" in line], done.stdout


def test_launches_can_be_chosen_by_their_marker(project: Path) -> None:
    launch = ("--rldoctor", "launch_well.sh", "--rldoctor-assume", "machine.json", "--strict-markers")
    assert "1 passed, 1 deselected" in run(project, *launch, "-m", "rldoctor").stdout


def test_a_pytest_that_is_not_asked_loads_nothing_heavy(project: Path) -> None:
    probe = "import sys; import rldoctor.pytest_plugin; print('msgspec' in sys.modules or 'typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
    assert "1 passed" in run(project).stdout
