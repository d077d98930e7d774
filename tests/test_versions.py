"""Versions in ranges: a build counts as its release, unless the bound itself names a build."""

from __future__ import annotations

import pytest
from packaging.specifiers import InvalidSpecifier

from rldoctor.versions import parsed, specifiers, version_within


@pytest.mark.parametrize(
    ("version", "specifier"),
    [
        ("0.24.0+cu129", "<=0.24.0"),
        ("0.9.2.dev3+gabcdef0", ">=0.9.2"),
        ("0.8.0rc1", ">=0.8"),
        ("0.6.4.post1", "<=0.6.4"),
        ("0.7.3", "==0.7.*"),
        ("0.6.0", "<0.6.0.post1"),
        ("0.6.0.dev2", "<0.6.0.post1"),
        ("0.6.0rc1", "<0.6.0.post1"),
        ("0.6.0.post1", ">=0.6.0.post1"),
        ("0.6.0.post1.dev4+gabcdef0", ">=0.6.0.post1"),
        ("0.6.0.post2", ">=0.5.8,<0.6.0.post3"),
        ("0.6.5", ">0.6.4.post1"),
        ("0.8.0rc2", ">=0.8.0rc2"),
        ("0.8.0", ">=0.8.0rc2"),
        ("0.1.0", ""),
    ],
)
def test_a_version_inside_a_range(version: str, specifier: str) -> None:
    assert version_within(version, specifier) is True


@pytest.mark.parametrize(
    ("version", "specifier"),
    [
        ("0.24.0+cu129", ">0.24.0"),
        ("0.8.0rc1", "<0.8"),
        ("0.6.4.post1", ">0.6.4"),
        ("0.6.0.post1", "<0.6.0.post1"),
        ("0.6.0.post1+local", "<0.6.0.post1"),
        ("0.6.0.post3", ">=0.5.8,<0.6.0.post3"),
        ("0.6.0.post2", ">=0.5.8,<0.6"),
        ("0.6.4.post1", ">0.6.4.post1"),
        ("0.6.0", ">=0.6.0.post1"),
        ("0.8.0rc1", ">=0.8.0rc2"),
        ("0.20.0.dev0", ">=0.20.0.dev1"),
    ],
)
def test_a_version_outside_a_range(version: str, specifier: str) -> None:
    assert version_within(version, specifier) is False


def test_a_number_of_more_digits_than_python_reads_is_no_version() -> None:
    assert parsed("1." + "9" * 6000) is None
    with pytest.raises(InvalidSpecifier):
        specifiers(">=" + "9" * 6000)


def test_what_is_no_version_lies_in_no_range_and_outside_of_none() -> None:
    assert version_within("nightly", "<1") is None
