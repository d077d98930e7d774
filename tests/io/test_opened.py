"""A result never takes the place of what it was made of, however that was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldoctor.io import opened
from tests.commands import run

LAUNCH = """\
source env.inc
python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm actor_rollout_ref.model.path=$MODEL
"""
CONFIG = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2}
MACHINE = {"python": "3.12", "packages": {"vllm": "0.8.5", "verl": "0.4.0"}}
LOG = '[rank0]: step 1\nTraceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: x\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("model", "logs"):
        Path(folder).mkdir()
    Path("model/config.json").write_text(json.dumps(CONFIG))
    Path("env.inc").write_text("export MODEL=model\n")
    Path("run.sh").write_text(LAUNCH)
    Path("machine.json").write_text(json.dumps(MACHINE))
    for name in ("rank0.log", "rank1.log"):
        Path("logs", name).write_text(LOG)
    Path("another-name").symlink_to("model/config.json")
    return tmp_path


@pytest.mark.parametrize("file", ["model/config.json", "env.inc", "another-name"])
@pytest.mark.parametrize("command", ["check", "plan", "bundle", "baseline"])
def test_a_file_that_a_launch_leads_to_stays(project: Path, command: str, file: str) -> None:
    before = Path(file).read_bytes()
    assumed = () if command == "bundle" else ("--assume", "machine.json")
    done = run(command, "run.sh", *assumed, "--output", file)
    assert done.returncode == 2
    assert "is a file that is read here: name another, nothing was written" in done.stderr.splitlines()[-1]
    assert Path(file).read_bytes() == before


def test_a_log_in_a_folder_stays(project: Path) -> None:
    assert run("triage", "logs", "--output", "logs/rank1.log").returncode == 2
    assert Path("logs/rank1.log").read_text() == LOG


def test_what_is_not_read_is_written_again(project: Path) -> None:
    for _ in range(2):
        done = run("triage", "logs", "--format", "html", "--output", "logs/report.html")
        assert (done.returncode, Path("logs/report.html").read_text()[:15]) == (1, "<!DOCTYPE html>")
        assert run("baseline", "run.sh", "--assume", "machine.json").returncode in (0, 2)
        assert json.loads(Path("rldoctor-baseline.json").read_text())["findings"] is not None


def test_only_openings_to_read_count(tmp_path: Path) -> None:
    written, read = tmp_path / "written", tmp_path / "read"
    read.write_text("x")
    opened.note()
    written.write_text("x")
    read.read_text()
    assert (opened.was_read(written), opened.was_read(read), opened.was_read(tmp_path / "none")) == (False, True, False)
