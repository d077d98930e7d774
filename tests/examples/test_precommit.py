"""The pre-commit hook, run by pre-commit itself in a repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.examples.conftest import ROOT

pytest.importorskip("pre_commit")

PRE_COMMIT = (sys.executable, "-m", "pre_commit")
HOOKS = ROOT / ".pre-commit-hooks.yaml"


def run(*command: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_manifest_is_one(tmp_path: Path, environment: dict[str, str]) -> None:
    done = run(*PRE_COMMIT, "validate-manifest", str(HOOKS), cwd=tmp_path, environment=environment)
    assert done.returncode == 0, done.stdout


def test_it_judges_the_launches_that_are_committed(project: Path, environment: dict[str, str]) -> None:
    """With this interpreter's rldoctor in place of one that pre-commit would install."""
    (hook,) = yaml.safe_load(HOOKS.read_text())
    local = {**hook, "language": "system", "args": ["--assume", "machine.json"]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{"repo": "local", "hooks": [local]}]}))
    (project / "notes.sh").write_text("echo no launch\n")
    run("git", "init", "-q", cwd=project, environment=environment)
    run("git", "add", "-A", cwd=project, environment=environment)
    done = run(*PRE_COMMIT, "run", "--all-files", cwd=project, environment=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "RLD202" in done.stdout and "launch_sick.sh:6" in done.stdout
    assert "notes.sh" not in done.stdout
    assert done.stdout.count("1 error") == 1  # one report on both launches
    (project / "launch_other.sh").write_text((project / "launch_sick.sh").read_text())
    several = ("--files", "launch_sick.sh", "launch_well.sh", "launch_other.sh")
    both = run(*PRE_COMMIT, "run", *several, cwd=project, environment=environment)
    assert both.returncode == 1
    assert "launch_sick.sh:6" in both.stdout and "launch_other.sh" in both.stdout and "2 errors" in both.stdout
    well = run(*PRE_COMMIT, "run", "--files", "launch_well.sh", cwd=project, environment=environment)
    assert well.returncode == 0, well.stdout
