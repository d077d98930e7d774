"""The laws of the house that a program can watch over."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loaded import REGISTRY
from tests.long import LONG

ROOT = Path(__file__).resolve().parent.parent
CHILDREN = ROOT / "rldoctor" / "probes" / "children"
PATIENT = ("torch", "vllm", "ray", "transformers", "numpy")


def test_the_doctor_does_not_import_the_patient() -> None:
    probe = (
        "import sys, rldoctor.cli, rldoctor.flow.session\n"
        "from rldoctor.catalogue import registry\n"
        "registry.load()\n"
        f"print(sorted(set(sys.modules) & set({PATIENT!r})))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "command",
    [
        "check --level static --assume vllm==0.11.0 --assume torch==2.8.0 --fail-on never",
        "hang --from absent",
        "watch /dev/null",
    ],
)
def test_a_command_makes_no_models_of_its_options(command: str) -> None:
    """typer from 0.29 on has pydantic make one of each, defaults among them: a fifth of the start-up."""
    probe = (
        "import atexit, sys, rldoctor.cli\n"
        "atexit.register(lambda: print('pydantic' in sys.modules))\n"
        f"rldoctor.cli.main({command.split()!r})"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_dataclasses_of_the_house_are_those_of_records() -> None:
    """The standard library's are a sixth of the start-up."""
    others = {
        str(file.relative_to(ROOT))
        for top in ("rldoctor", "checks")
        for file in (ROOT / top).rglob("*.py")
        if CHILDREN not in file.parents
        and re.search(r"^from dataclasses import .*\bdataclass\b", file.read_text(), re.M)
    }
    assert others == set()


def test_only_children_import_the_patient() -> None:
    importing = {
        str(file.relative_to(ROOT))
        for top in ("rldoctor", "checks")
        for file in (ROOT / top).rglob("*.py")
        if CHILDREN not in file.parents and any(name in (text := file.read_text()) for name in PATIENT)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
        if name.partition(".")[0] in PATIENT
    }
    assert importing == set()


def test_the_callback_is_no_import_of_the_patient() -> None:
    probe = f"import sys, rldoctor.watch.trainer\nprint(sorted(set(sys.modules) & set({PATIENT!r})))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_folder_of_modules_is_a_package_and_so_shipped() -> None:
    folders = {path.parent for top in ("rldoctor", "checks") for path in (ROOT / top).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_the_map_has_every_room() -> None:
    described = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {init.parent.name for init in (ROOT / "rldoctor").glob("*/__init__.py")}
    assert rooms and sorted(room for room in rooms if f"`rldoctor/{room}/`" not in described) == []
    named = re.findall(r"`(rldoctor/[\w/.]+|checks|tests|docs|examples|benchmarks)/?`", described)
    assert named and [place for place in named if not (ROOT / place).exists()] == []


def test_checks_reach_no_further_than_the_api() -> None:
    for file in (ROOT / "checks").rglob("*.py"):
        for line in file.read_text().splitlines():
            if line.startswith(("import rldoctor", "from rldoctor")):
                assert line.startswith(("from rldoctor.api import", "from rldoctor.api.")), f"{file}: {line}"


def test_every_check_has_a_test_file_of_its_name() -> None:
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    wanted = {f"test_{check.module.rpartition('.')[2]}.py" for check in REGISTRY.checks.values()}
    assert wanted - tests == set()


def test_the_api_is_small() -> None:
    import rldoctor.api

    assert len(rldoctor.api.__all__) <= 30


@pytest.mark.xdist_group("house")
def test_tests_that_share_an_engine_share_a_worker(request: pytest.FixtureRequest) -> None:
    """xdist reads the groups, which it shows in the names."""
    if os.environ.get("PYTEST_XDIST_WORKER") and request.config.getoption("loadgroup"):
        assert request.node.nodeid.endswith("@house")


@pytest.mark.parametrize("name", LONG)
def test_what_is_listed_as_long_is_there(name: str) -> None:
    file, _, part = name.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not part or re.search(rf"^(?:def|class) {part}\b", text, re.MULTILINE)
