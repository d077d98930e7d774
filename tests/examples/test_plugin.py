"""The example plugin, installed into an environment and used there."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.examples.conftest import ROOT

PLUGIN = ROOT / "examples" / "plugin"


def run(*command: object, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    words = [str(part) for part in command]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the plugin, beside this environment's rldoctor."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("plugin")
    made = run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=folder)
    assert made.returncode == 0, made.stderr
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    above = [path for path in sys.path if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})" for path in above]
    (site / "rldoctor.pth").write_text("\n".join(lines) + "\n")
    copy = folder / "source"
    copied = run("cp", "-r", PLUGIN, copy, cwd=folder)
    assert copied.returncode == 0, copied.stderr
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    installed = run(sys.executable, "-m", "pip", "install", *options, "--target", site, copy, cwd=folder)
    assert installed.returncode == 0, installed.stderr
    assert sysconfig.get_python_version() in str(site)
    return folder / "venv" / "bin" / "python"


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    (tmp_path / "train.sh").write_text("acme-train run --prompt 512 --answer 256 --nodes 2\n")
    return tmp_path


def test_its_checks_are_listed_with_their_origin_and_explained(python: Path, tmp_path: Path) -> None:
    listed = run(python, "-m", "rldoctor", "list", cwd=tmp_path)
    assert [line.split() for line in listed.stdout.splitlines() if line.startswith("ACME")] == [
        ["ACME01", "acme-nccl-plugin-missing", "acme"],
        ["ACME02", "acme-scratch-unwritable", "acme"],
    ]
    assert listed.stderr == ""
    explained = run(python, "-m", "rldoctor", "explain", "ACME01", cwd=tmp_path)
    assert "**warning**: NCCL_NET_PLUGIN is not set" in explained.stdout
    assert "**pass**" in explained.stdout


def test_its_framework_is_read_and_its_check_judges_it(python: Path, launch: Path) -> None:
    options = ("--assume", "acme-trainer==1.0", "--level", "static", "--select", "ACME01", "--format", "json")
    done = run(python, "-m", "rldoctor", "check", "train.sh", *options, cwd=launch)
    reported = json.loads(done.stdout)
    assert [finding["code"] for finding in reported["findings"]] == ["ACME01"], done.stderr
    (edit,) = reported["findings"][0]["fixes"][0]["edits"]
    assert "NCCL_NET_PLUGIN" in edit["spelled"]
    named = "export NCCL_NET_PLUGIN=acme\n" + (launch / "train.sh").read_text()
    (launch / "train.sh").write_text(named)
    again = run(python, "-m", "rldoctor", "check", "train.sh", *options, cwd=launch)
    assert json.loads(again.stdout)["findings"] == []


@pytest.mark.parametrize(("folder", "outcome"), [(".", "pass"), ("nowhere", "findings"), (None, "not-applicable")])
def test_its_probe_runs_and_its_check_judges_what_it_saw(
    python: Path, tmp_path: Path, environment: dict[str, str], folder: str | None, outcome: str
) -> None:
    if folder is not None:
        environment["ACME_SCRATCH"] = str(tmp_path / folder)
    options = ("--select", "ACME02", "--level", "imports", "--format", "json", "--python", python)
    done = run(python, "-m", "rldoctor", "check", *options, cwd=tmp_path, env=environment)
    (row,) = (row for row in json.loads(done.stdout)["checks"] if row["code"] == "ACME02")
    assert row["outcome"] == outcome, row
    assert list(tmp_path.glob("rldoctor-*")) == []


def test_its_own_tests_pass(python: Path, tmp_path: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", tmp_path)
    done = run(python, "-m", "pytest", *options, PLUGIN / "tests", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
