"""Which releases a rule of a dialect holds for."""

from __future__ import annotations

import pytest

from rldoctor.frameworks.releases import within


@pytest.mark.parametrize("version", ["0.6", "0.6.1.post2", "0.6.0+cu129", "0.6.0.dev3", "0.6.0rc1"])
def test_a_build_counts_as_its_release(version: str) -> None:
    assert within(version, "0.6")
    assert within(version, "0.6", "0.7")
    assert not within(version, "0.5", "0.6")


def test_a_bound_that_names_a_post_release_tells_it_apart() -> None:
    assert within("0.6.0", "0.5.8", "0.6.0.post1")
    assert not within("0.6.0.post1", "0.5.8", "0.6.0.post1")


@pytest.mark.parametrize("version", [None, "main", ""])
def test_what_is_not_known_lies_in_no_range(version: str | None) -> None:
    assert not within(version, "0")
