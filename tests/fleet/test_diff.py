"""What differs between two cases: in which order, and what is no difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from rldoctor import bundle
from rldoctor.api import Case, RolloutPlan, Setting
from rldoctor.fleet.diff import differences
from tests import commands
from tests.cases import assumed, gpus, host, installed


def reported(first: Case, second: Case) -> list[tuple[str, str, object, object]]:
    return [(d.section, d.name, d.first, d.second) for d in differences(first, second)]


def plan(**settings: object) -> RolloutPlan:
    values = {name.replace("__", "."): Setting(value=value) for name, value in settings.items()}
    return RolloutPlan(framework="trl", file="train.py", entry="train.py", settings=values)


def test_packages_that_checks_know_come_first() -> None:
    works = installed({"aiohttp": "3.1", "torch": "2.8.0", "vllm": "0.10.2", "trl": "0.24.0", "rich": "14.0"})
    fails = installed({"aiohttp": "3.2", "torch": "2.7.1", "vllm": "0.10.2", "numpy": "2.2.0", "rich": "14.0"})
    assert reported(works, fails) == [
        ("packages", "torch", "2.8.0", "2.7.1"),
        ("packages", "trl", "0.24.0", None),
        ("packages", "numpy", None, "2.2.0"),
        ("packages", "aiohttp", "3.1", "3.2"),
    ]


def test_gpus_variables_settings_and_limits() -> None:
    works = Case(
        gpus=gpus(count=8, driver="570.1", cuda="12.8"),
        environment={"NCCL_DEBUG": "INFO", "VLLM_USE_V1": "1", "HF_HOME": "/data"},
        plan=plan(engine__seed=1, engine__max_model_len=4096),
        host=host(),
    )
    fails = Case(
        gpus=gpus(count=4, driver="535.1", cuda="12.2"),
        environment={"NCCL_DEBUG": "WARN", "VLLM_USE_V1": "0", "HF_HOME": "/data"},
        plan=plan(engine__seed=1, engine__max_model_len=8192),
        host=host(shm_total=64 << 20),
    )
    assert [(section, name) for section, name, _, _ in reported(works, fails)] == [
        ("gpus", "devices"),
        ("gpus", "driver"),
        ("gpus", "cuda"),
        ("environment", "VLLM_USE_V1"),
        ("environment", "NCCL_DEBUG"),
        ("plan", "engine.max_model_len"),
        ("host", "shm_total"),
    ]
    assert reported(works, works) == []


def test_what_changes_by_the_minute_is_no_difference() -> None:
    assert reported(Case(host=host()), Case(host=host(load=63.0, memory_available=1, shm_free=2))) == []


def test_a_package_that_an_assumed_machine_does_not_name_is_no_difference() -> None:
    works = installed({"torch": "2.8.0", "vllm": "0.10.2"}, python="3.12")
    assert reported(works, assumed(vllm="0.11.0")) == [("packages", "vllm", "0.10.2", "0.11.0")]


def test_a_section_that_one_case_lacks_is_said_with_the_reason() -> None:
    found = differences(Case(gpus=gpus()), replace(Case(), absent={"gpus": "no driver answers"}))
    assert [(d.section, d.second, d.note) for d in found] == [("gpus", None, "no driver answers")]


def run(*arguments: str | Path) -> CompletedProcess[str]:
    return commands.run("diff", *arguments)


@pytest.fixture
def bundles(tmp_path: Path) -> tuple[Path, Path]:
    versions = {f"package-{number}": "1.0" for number in range(30)}
    for name, case in (
        ("works.json", installed({"vllm": "0.10.2", **versions})),
        ("fails.json", installed({"vllm": "0.11.0"})),
    ):
        (tmp_path / name).write_text(bundle.dump(case))
    return tmp_path / "works.json", tmp_path / "fails.json"


def test_the_command_says_it_as_text_and_as_json(bundles: tuple[Path, Path]) -> None:
    done = run(*bundles)
    assert done.returncode == 1
    assert "vllm" in done.stdout and "0.11.0" in done.stdout
    assert "package-7" not in done.stdout and "and 30 other packages" in done.stdout
    document = json.loads(run(*bundles, "--format", "json").stdout)
    assert document["differences"][0] == {
        "section": "packages",
        "name": "vllm",
        "first": "0.10.2",
        "second": "0.11.0",
        "note": None,
        "minor": False,
    }
    assert len(document["differences"]) == 31


def test_the_exit_code_tells_same_from_unreadable(bundles: tuple[Path, Path], tmp_path: Path) -> None:
    assert run(bundles[0], bundles[0]).returncode == 0
    (tmp_path / "broken.json").write_text("{")
    for other in (tmp_path / "broken.json", tmp_path / "missing.json", tmp_path):
        done = run(bundles[0], other)
        assert done.returncode == 2
        assert done.stderr.startswith(f"rldoctor: {other}") and done.stderr.count("\n") == 1
    assert run(*bundles, "--format", "sarif").returncode == 2
