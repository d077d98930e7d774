"""Names matched against many simple patterns (``fnmatch``), without compiling each of them at every start."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


class Patterns:
    """Patterns sorted by kind: whole names, beginnings (``a.*``), endings (``*.b``), and the few that need a match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        whole: set[str] = set()
        starts: list[str] = []
        ends: list[str] = []
        others: list[str] = []
        for pattern in patterns:
            body = pattern.strip("*")
            if any(mark in body for mark in "*?[") or pattern[:1] == pattern[-1:] == "*":
                others.append(pattern)
            elif body == pattern:
                whole.add(pattern)
            else:
                (starts if pattern.endswith("*") else ends).append(body)
        self._whole, self._others = frozenset(whole), tuple(others)
        self._starts, self._ends = tuple(starts), tuple(ends)

    def match(self, name: str) -> bool:
        """Whether one of the patterns matches the whole name."""
        return (
            name in self._whole
            or name.startswith(self._starts)
            or name.endswith(self._ends)
            or any(fnmatchcase(name, pattern) for pattern in self._others)
        )
