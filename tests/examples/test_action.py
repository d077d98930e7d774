"""The GitHub action: its steps run as the runner runs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.conftest import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


class Runner:
    """Runs the shell steps of the action in a project, with inputs given."""

    def __init__(self, project: Path, temp: Path, environment: dict[str, str], **inputs: str) -> None:
        self.project = project
        self.environment = environment
        self.files = {name: temp / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self.values = {f"inputs.{name}": str(reported["default"]) for name, reported in ACTION["inputs"].items()}
        self.values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        self.values |= {"runner.temp": str(temp), "github.action_path": str(ROOT)}
        program = temp / "rldoctor" / "venv" / "bin" / "rldoctor"
        program.parent.mkdir(parents=True)
        program.symlink_to(Path(sys.executable).parent / "rldoctor")

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        step = STEPS[name]
        variables = {key: EXPRESSION.sub(self._value, value) for key, value in step.get("env", {}).items()}
        files = {name: str(file) for name, file in self.files.items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.project,
            env={**self.environment, **files, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        for line in (
            self.files["GITHUB_OUTPUT"].read_text().splitlines() if self.files["GITHUB_OUTPUT"].exists() else ()
        ):
            key, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{key}" if "id" in step else key] = value
        return done

    def _value(self, found: re.Match[str]) -> str:
        return self.values.get(found[1], "")


def test_every_input_is_used_and_none_is_a_part_of_a_script() -> None:
    used = {name for step in STEPS.values() for name in re.findall(r"inputs\.([a-z-]+)", json.dumps(step))}
    assert used == set(ACTION["inputs"])
    assert not [step for step in STEPS.values() if "${{" in step.get("run", "")]


@pytest.mark.parametrize(("launch", "status"), [("launch_sick.sh", 1), ("launch_well.sh", 0), ("nothere.sh", 2)])
def test_the_job_ends_as_the_verdict_says(
    project: Path, tmp_path: Path, environment: dict[str, str], launch: str, status: int
) -> None:
    runner = Runner(project, tmp_path, environment, targets=launch, assume="machine.json")
    judged = runner.run("Judge")
    assert judged.returncode == 0, judged.stderr
    assert runner.run("Verdict").returncode == status
    assert ("steps.check.outputs.sarif" in runner.values) is (status < 2)


def test_findings_come_as_sarif_on_their_lines_and_in_the_summary(
    project: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    runner = Runner(project, tmp_path, environment, targets="launch_*.sh", assume="machine.json", require="RLD202")
    judged = runner.run("Judge")
    sarif = json.loads(Path(runner.values["steps.check.outputs.sarif"]).read_text())
    assert "RLD202" in {result["ruleId"] for result in sarif["runs"][0]["results"]}
    assert "::error file=launch_sick.sh,line=6,title=RLD202" in judged.stdout
    assert "RLD202" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()


def test_a_hostile_input_is_an_argument(project: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    Runner(project, tmp_path, environment, targets="$(touch owned) `touch owned`", assume="machine.json").run("Judge")
    assert not (project / "owned").exists()
