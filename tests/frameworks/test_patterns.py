"""Simple patterns of names match as fnmatch would."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from rldoctor.frameworks.patterns import Patterns

NAMES = ["a", "a.b", "a.b.c", "x.a.b", "optim.lr", "actor.optim.lr", "trainer.val_only", "", "b_files", "data.b_files"]


@pytest.mark.parametrize("pattern", ["a", "a.*", "*.b", "*optim*", "*.val_*", "*", "data.*_files", "a?b", "[ab]*", ""])
def test_a_pattern_matches_what_fnmatch_matches(pattern: str) -> None:
    assert [name for name in NAMES if Patterns((pattern,)).match(name)] == [n for n in NAMES if fnmatchcase(n, pattern)]
