"""What could not be judged is exit code 2 and says so, with real plugins, interpreters and probes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor.catalogue.plugins import BrokenPlugin
from rldoctor.flow import run as flow
from rldoctor.flow import session
from rldoctor.hang import folder
from rldoctor.hang.examine import HangRequest, examine
from rldoctor.model import Missing
from tests.hang.records import ALL_REDUCE, case, hang, rank
from tests.probes.environments import Environment

CRASHES = """
from rldoctor.api import Check
check = Check("ACME01", "acme", "Document.")

@check.declared(needs=["packages"])
def breaks(case):
    raise KeyError("oops")
    yield
"""
HANGS = "import time\ntime.sleep(600)\n"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """One that has what a verdict on an environment asks for."""
    return Environment(tmp_path / "venv").install("vllm", "0.8.5", {"vllm.py": "__version__ = '0.8.5'\n"})


def run(folder: Path, *arguments: str | Path, plugin: str | None = None) -> tuple[int, dict[str, object], str]:
    """Exit code, JSON report and what was said beside it."""
    (folder / "tmp").mkdir(exist_ok=True)
    environ = {**os.environ, "TMPDIR": str(folder / "tmp"), "XDG_CACHE_HOME": str(folder / "cache")}
    if plugin is not None:
        site = folder / "plugins"
        info = site / "acme-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "acme_doctor.py").write_text(plugin)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[rldoctor.checks]\nacme = acme_doctor\n")
        environ["PYTHONPATH"] = str(site)
    command = [sys.executable, "-m", "rldoctor", "check", *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_a_check_that_crashed(environment: Environment, tmp_path: Path) -> None:
    arguments = ("--level", "static", "--python", environment.python, "--select", "ACME01,RLD113")
    code, report, said = run(tmp_path, *arguments, plugin=CRASHES)
    assert code == 2, said
    (crashed,) = [check for check in report["checks"] if check["code"] == "ACME01"]  # type: ignore[attr-defined]
    assert crashed["outcome"] == "crashed" and "KeyError" in crashed["reason"]
    assert "ACME01 crashed" in said


def test_what_cannot_be_imported(tmp_path: Path) -> None:
    """A third party's plugin is passed over and named; without a part of rldoctor nothing is called well."""
    log = tmp_path / "run.log"
    log.write_text("ValueError: it broke\n")
    opened = session.open_session(session.Options())
    opened.registry.broken += [
        BrokenPlugin("acme", "acme_doctor: ImportError: no"),
        BrokenPlugin("builtin-checks", "rldoctor_checks.sync: SyntaxError: no"),
    ]
    kept = folder.save(case(hang(rank(0, ALL_REDUCE), rank(1, ALL_REDUCE))), tmp_path / "kept")
    stalled = HangRequest(seconds=5.0, saved=(kept,))
    for judged in (
        flow.triage(opened, [str(log)], False, lambda said: None),
        examine(opened, stalled, lambda said: None),
    ):
        assert judged.notes[0] == "plugin acme was left out: acme_doctor: ImportError: no"
        assert Missing(what="a part of rldoctor is broken: rldoctor_checks.sync: SyntaxError: no") in judged.missing


def test_a_level_that_was_asked_for_and_ended_by_its_time_limit(environment: Environment, tmp_path: Path) -> None:
    environment.install("ray", "2.0", {"ray.py": HANGS})
    arguments = ("--python", environment.python, "--select", "RLD108")
    code, _, said = run(tmp_path, *arguments, "--level", "imports", "--time-limit", "3")
    assert code == 2 and "was ended by its time limit" in said, said


def test_a_level_that_was_asked_for_and_has_nothing_to_run_on(tmp_path: Path) -> None:
    python = Environment(tmp_path / "venv").install("trl", "0.19.0", {"trl.py": ""}).python
    code, _, said = run(tmp_path, "--python", python, "--level", "rollout", "--fail-on", "never")
    assert code == 2 and "--level rollout did not run: vllm is not installed" in said, said


@pytest.mark.parametrize("named", ["venv", "venv/", "venv/bin/python", "./venv"])
def test_an_interpreter_is_found_however_its_environment_is_named(
    environment: Environment, tmp_path: Path, named: str
) -> None:
    environment.install("ray", "2.0", {"ray.py": "raise RuntimeError('no further')\n"})
    code, report, said = run(tmp_path, "--python", named, "--level", "imports")
    assert code == 1, said
    assert "no further" in json.dumps(report["findings"])  # the probe ran in it
