"""Entry points of the environment that rldoctor runs in, by which built-ins and third parties come in alike."""

from __future__ import annotations

import contextlib
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions, entry_points

from rldoctor.errors import one_line
from rldoctor.records import dataclass


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point that could not be used, and why; the rest still works."""

    plugin: str
    reason: str

    @property
    def is_own(self) -> bool:
        """Whether it belongs to rldoctor itself."""
        return self.plugin.startswith("builtin")

    def __str__(self) -> str:
        return f"plugin {self.plugin} was left out: {self.reason}"

    @classmethod
    def of(cls, entry: EntryPoint, error: BaseException) -> BrokenPlugin:
        """From what its import raised."""
        return cls(entry.name, f"{entry.value}: {one_line(error)}")


def entries(group: str) -> list[EntryPoint]:
    """The entry points of a group."""
    return [entry for entry in _installed(tuple(sys.path)) if entry.group == group]


@lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> list[EntryPoint]:
    """The entry points of all distributions on a path, also beside one whose metadata is damaged. They are read once,
    for all groups."""
    try:
        every = entry_points()
        found = [entry for group in every.groups for entry in every.select(group=group)]
    except Exception:  # one unreadable entry_points.txt among hundreds, most likely of something else
        found = []
        for distribution in distributions():
            with contextlib.suppress(Exception):
                found += distribution.entry_points
    return list(dict.fromkeys(found))
