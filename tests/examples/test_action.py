"""The GitHub action: its steps run as the runner runs them."""

from __future__ import annotations

import json
import re
import shutil
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

    def __init__(
        self, project: Path, temp: Path, environment: dict[str, str], source: Path | None = None, **inputs: str
    ) -> None:
        """Without a ``source`` that the action installs, this environment's rldoctor is in the place of one."""
        self.project = project
        self.environment = environment
        self.files = {name: temp / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self.values = {f"inputs.{name}": str(reported["default"]) for name, reported in ACTION["inputs"].items()}
        self.values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        self.values |= {"runner.temp": str(temp), "github.action_path": str(source or ROOT)}
        if source is not None:
            return
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
            timeout=400,
            check=False,
        )
        for line in (
            self.files["GITHUB_OUTPUT"].read_text().splitlines() if self.files["GITHUB_OUTPUT"].exists() else ()
        ):
            key, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{key}" if "id" in step else key] = value
        return done

    def asks(self, name: str) -> bool:
        """Whether a step's condition holds; the action has comparisons of texts, joined by ``&&``."""
        parts = [re.fullmatch(r"([\w.-]+) (==|!=) '(.*)'", part) for part in STEPS[name]["if"].split(" && ")]
        assert all(parts)
        return all((self.values.get(p[1], "") == p[3]) is (p[2] == "==") for p in parts if p)

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


def test_every_step_runs_from_a_clone(project: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """The action installs itself, and what it installed judges; its requirements are this environment's."""
    source = tmp_path / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=60, check=False)
    if listed.returncode != 0:
        pytest.skip("not a checkout of git")
    for name in (one.decode() for one in listed.stdout.split(b"\0") if one and not one.startswith(b"tests/")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    inputs = {"targets": "launch_sick.sh", "assume": "machine.json", "python": sys.executable}
    runner = Runner(project, tmp_path, {**environment, "PIP_NO_DEPS": "1"}, source, **inputs)
    installed = runner.run("Install rldoctor")
    if "No matching distribution found for setuptools" in installed.stderr:
        pytest.skip("no package index to build from")
    assert installed.returncode == 0, installed.stderr
    (site,) = (tmp_path / "rldoctor" / "venv" / "lib").glob("python*/site-packages")
    # Plain folders, whose own .pth files, and so this rldoctor, do not count.
    (site / "requirements.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    judged = runner.run("Judge")
    assert "::error file=launch_sick.sh,line=6,title=RLD202" in judged.stdout, judged.stderr
    assert runner.asks("Upload to code scanning")
    upload = STEPS["Upload to code scanning"]["with"]
    sarif = Path(EXPRESSION.sub(runner._value, upload["sarif_file"]))
    assert json.loads(sarif.read_text())["runs"][0]["results"]
    assert runner.run("Verdict").returncode == 1


def test_without_sarif_nothing_is_uploaded(project: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    runner = Runner(
        project, tmp_path, environment, targets="launch_well.sh", assume="machine.json", upload_sarif="false"
    )
    runner.run("Judge")
    assert not runner.asks("Upload to code scanning")
