"""The shipped tables: every row can be read, and says where it was read from."""

from __future__ import annotations

import datetime

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rldoctor.knowledge import table
from rldoctor.knowledge.packages import PACKAGES
from rldoctor.tables import declarations


def test_every_known_break_is_complete() -> None:
    for row in table("incompatible"):
        assert row["package"] in PACKAGES
        SpecifierSet(row["versions"])
        needs = Requirement(row["needs"])
        assert needs.name in PACKAGES and needs.specifier
        assert row["url"].startswith("https://")
        assert datetime.date.fromisoformat(row["verified"])
        assert row["reason"]


def test_every_declared_line_can_be_read() -> None:
    for name, entry in declarations._table()["packages"].items():
        for row in entry["rows"]:
            assert all(Version(version) for version in row["versions"]), name
            assert all(Requirement(line) for line in row["requires"]), name


@pytest.mark.parametrize(
    "name", ["vllm", "trl", "verl", "ms-swift", "openrlhf", "easyr1", "nemo-rl", "open-r1", "skyrl"]
)
def test_the_table_has_the_frameworks(name: str) -> None:
    assert declarations.releases(name)
    assert declarations.source(name)


def test_a_release_is_found_whatever_its_label() -> None:
    found = declarations.release("vllm", "0.11.0+cu129")
    assert found is not None and "torch==2.8.0" in found.requires
    assert declarations.release("vllm", "99.0") is None
    assert declarations.releases("rich") == ()


@pytest.mark.parametrize("version", ["0.11.0", "0.11.0+cu129", "nightly"])
def test_a_release_that_the_table_knows_is_not_newer(version: str) -> None:
    assert declarations.behind("vllm", version) is None


def test_a_release_newer_than_the_table_is_said() -> None:
    said = declarations.behind("vllm", "99.0")
    assert said is not None and said.startswith("vllm 99.0 is newer than what is known here of its releases (")
    assert declarations.behind("flask", "99.0") is None
