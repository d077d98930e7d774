"""`rldoctor triage` as a command: the baseline, and what the project's settings ignore."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run

from .asking import raised
from .excerpts import HEALTHY, OUT_OF_MEMORY

UNKNOWN = raised("GizmoError", "upside down", "/opt/venv/lib/python3.11/site-packages/gizmo/a.py turn")
ODD = "the gizmo was turned by somebody else\n"


def triage(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("triage", *arguments, cwd=cwd)


def report(cwd: Path, *arguments: str) -> dict[str, Any]:
    return dict(json.loads(triage(cwd, *arguments, "--format", "json").stdout))


def test_a_baseline_shows_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "healthy.log").write_text(HEALTHY)
    (tmp_path / "more.log").write_text("another line\n")
    (tmp_path / "run.log").write_text(HEALTHY.removesuffix("DONE\n") + ODD + UNKNOWN)
    reported = report(tmp_path, "run.log", "--baseline", "healthy.log", "--baseline", "more.log")
    new = [e for e in reported["findings"][0]["evidence"] if e["text"].startswith("new against the baseline: ")]
    assert [(e["text"].split(": ", 1)[1], e["line"]) for e in new] == [(ODD.strip(), 7)]


@pytest.mark.parametrize("given", ["missing.log", "empty.log", "folder"])
def test_a_baseline_without_lines_is_one_line_and_exit_code_2(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "run.log").write_text(UNKNOWN)
    done = triage(tmp_path, "run.log", "--baseline", given)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"--baseline: {given} " in done.stderr


def test_standard_input_is_compared_too(tmp_path: Path) -> None:
    (tmp_path / "healthy.log").write_text(HEALTHY)
    text = HEALTHY.removesuffix("DONE\n") + ODD + UNKNOWN
    command = [sys.executable, "-m", "rldoctor", "triage", "-", "--baseline", "healthy.log", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, input=text, capture_output=True, text=True, timeout=60, check=False)
    evidence = json.loads(done.stdout)["findings"][0]["evidence"]
    new = [(e["text"], e["line"]) for e in evidence if e["text"].startswith("new against the baseline: ")]
    assert new == [(f"new against the baseline: {ODD.strip()}", 7)]


@pytest.mark.parametrize(
    ("until", "codes", "code"), [("", [], 0), ("until = 2001-01-01", ["RLD206"], 1), ("until = 2999-01-01", [], 0)]
)
def test_what_the_settings_ignore_is_silent_until_its_day(
    tmp_path: Path, until: str, codes: list[str], code: int
) -> None:
    (tmp_path / "rldoctor.toml").write_text(f'[[ignore]]\ncode = "RLD206"\nreason = "a smaller GPU"\n{until}\n')
    (tmp_path / "run.log").write_text(HEALTHY.removesuffix("DONE\n") + OUT_OF_MEMORY)
    done = triage(tmp_path, "run.log", "--format", "json")
    reported = json.loads(done.stdout)
    assert ([finding["code"] for finding in reported["findings"]], done.returncode) == (codes, code)
    (result,) = [r for r in reported["checks"] if r["code"] == "RLD206"]
    assert codes or (result["outcome"], result["reason"]) == ("not-applicable", "ignored: a smaller GPU")


def test_the_log_is_named_once_where_its_own_lines_are_cited(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(OUT_OF_MEMORY)
    (tmp_path / "other.log").write_text(HEALTHY)
    assert "judged: " not in triage(tmp_path, "run.log").stdout
    assert "judged: run.log, other.log" in triage(tmp_path, "run.log", "other.log").stdout
