"""Entry points of the environment that rldoctor runs in, by which built-ins and third parties come in alike."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, distributions, entry_points

from rldoctor.errors import one_line


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point that could not be used, and why; the rest still works."""

    plugin: str
    reason: str

    @classmethod
    def of(cls, entry: EntryPoint, error: BaseException) -> BrokenPlugin:
        """From what its import raised."""
        return cls(entry.name, f"{entry.value}: {one_line(error)}")


def entries(group: str) -> list[EntryPoint]:
    """The entry points of a group, also beside a distribution whose metadata is damaged."""
    try:
        return list(dict.fromkeys(entry_points(group=group)))
    except Exception:  # one unreadable entry_points.txt among hundreds, most likely of something else
        found: list[EntryPoint] = []
        for distribution in distributions():
            with contextlib.suppress(Exception):
                found += [entry for entry in distribution.entry_points if entry.group == group]
        return list(dict.fromkeys(found))
