"""A log stays where something refers to it; of what ended well nothing is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor import bundle
from tests.probes.environments import Environment


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv").install("numpy", "2.0", {"numpy.py": ""})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the probes of a test have their logs."""
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def run(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rldoctor", *map(str, arguments)]
    environ = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder.parent, env=environ)


def test_what_ended_well_leaves_nothing(environment: Environment, folder: Path) -> None:
    done = run(folder, "check", "--level", "imports", "--python", environment.python)
    assert "rldoctor: imports: stack" in done.stderr
    assert list(folder.iterdir()) == []


def test_what_a_finding_names_is_there(environment: Environment, folder: Path) -> None:
    """The probe came to its end; an import that it tried did not."""
    environment.install("ray", "2.0", {"ray.py": "print('so far')\nraise RuntimeError('no further')\n"})
    done = run(folder, "check", "--level", "imports", "--python", environment.python, "--format", "json")
    reported = [one["source"] for found in json.loads(done.stdout)["findings"] for one in found["evidence"]]
    # The folder itself is evidence, too, where its disk is nearly full.
    (log,) = [Path(source) for source in reported if Path(source).name == "log.txt"]
    assert "so far" in log.read_text()
    assert list(folder.iterdir()) == [log.parent]


def test_the_log_of_a_probe_that_failed_is_there_also_where_no_finding_names_it(
    environment: Environment, folder: Path
) -> None:
    slow = environment.install("ray", "2.0", {"ray.py": "import time\ntime.sleep(600)\n"}).python
    done = run(folder, "check", "--level", "imports", "--python", slow, "--time-limit", "3", "--select", "RLD108")
    assert str(folder) not in done.stdout
    assert [log.name for log in folder.glob("rldoctor-imports-stack-*/*")] == ["log.txt"]


def test_a_bundle_names_no_log_that_is_gone(environment: Environment, folder: Path) -> None:
    file = folder.parent / "case.json"
    arguments = ("bundle", "--level", "imports", "--python", environment.python, "--output", file)
    assert run(folder, *arguments).returncode == 0
    assert bundle.load(file).observations["imports"]["stack"]["log"] is None
    environment.install("ray", "2.0", {"ray.py": "raise RuntimeError('no further')\n"})
    assert run(folder, *arguments).returncode == 0
    log = bundle.load(file).observations["imports"]["stack"]["log"]
    assert Path(log.removesuffix(" (where the bundle was made)")).is_file()
