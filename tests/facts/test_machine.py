"""The machine at hand as a file, and machines by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.api import Case
from rldoctor.case import Gpus
from rldoctor.errors import InputError
from rldoctor.facts import assume, machine
from rldoctor.knowledge import machines
from tests import cases
from tests.commands import run


def test_what_is_written_is_what_assume_reads(tmp_path: Path) -> None:
    case = replace(
        cases.installed({"vllm": "0.8.5", "verl": "0.4.0"}),
        gpus=cases.gpus(count=8),
        environment={"VLLM_USE_V1": "0", "HF_TOKEN": "<removed:HF_TOKEN>"},
        nodes=2,
    )
    file = tmp_path / "machine.json"
    file.write_text(machine.dump(machine.of_case(case)))
    again = assume.apply(Case(), [str(file)])
    assert again.packages is not None and again.gpus is not None and case.packages is not None
    assert {d.name: d.version for d in again.packages.distributions} == {"vllm": "0.8.5", "verl": "0.4.0"}
    assert [d.compute_capability for d in again.gpus.devices] == ["8.0"] * 8
    assert {round(d.memory_total / cases.GIB) for d in again.gpus.devices} == {80}
    assert (again.environment, again.nodes) == ({"VLLM_USE_V1": "0"}, 2)


def test_devices_that_cannot_be_read_are_left_out_and_said() -> None:
    for gpus in (Gpus(vendor="nvidia", error="NVML: driver not loaded"), Gpus(vendor="amd")):
        case = Case(gpus=gpus, nodes=1)
        assert "gpus" not in json.loads(machine.dump(machine.of_case(case)))
        assert any("GPUs" in line for line in machine.left_out(case))


def test_a_machine_without_gpus_says_so() -> None:
    assert json.loads(machine.dump(machine.of_case(Case(gpus=Gpus(vendor="none")))))["gpus"] == []


def test_the_command_describes_this_machine(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    done = run("machine", cwd=tmp_path)
    assert done.returncode == 0
    reported = json.loads(done.stdout)
    assert reported["python"] and reported["packages"]["msgspec"]
    jsonschema.validate(reported, json.loads(machine.schema()))


@pytest.mark.parametrize("name", machines.devices())
def test_every_named_machine_is_one_that_can_be_assumed(name: str) -> None:
    case = assume.apply(Case(), [f"8x{name}", "vllm==0.8.5"])
    assert case.gpus is not None and len(case.gpus.devices) == 8
    (device, *_) = case.gpus.devices
    said = float(name.rpartition("-")[2].removesuffix("GB"))
    assert 0.9 * said < device.memory_total / cases.GIB <= said


@pytest.mark.parametrize(("text", "count"), [("H100-80GB", 1), ("8xH100-80GB", 8), ("16xh200-141gb", 16)])
def test_a_count_and_a_kind(text: str, count: int) -> None:
    found = machines.named(text)
    assert found is not None and found[0] == count


@pytest.mark.parametrize("text", ["8xH100", "0xH100-80GB", "9999xH100-80GB", "x", "", "8 H100-80GB", "note"])
def test_what_is_no_machine(text: str) -> None:
    assert machines.named(text) is None


def test_a_misspelled_machine_gets_the_name_meant() -> None:
    with pytest.raises(InputError, match="did you mean 8xH100-80GB"):
        assume.parse(["8xH100-80"])


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("H100-80GB").write_text('{"nodes": 3}')
    assert assume.apply(Case(), ["H100-80GB"]).nodes == 3
