"""Entry points of the environment that rldoctor runs in, by which built-ins and third parties come in alike."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from rldoctor.case.lookup import canonical
from rldoctor.errors import one_line
from rldoctor.records import dataclass

METADATA = (".dist-info", ".egg-info")
FILE = "entry_points.txt"
_MODULE = re.compile(r"([\w.]+)\s*(?::\s*[\w.]+\s*)?(?:\[.*\]\s*)?")


@dataclass(frozen=True)
class Entry:
    """An entry point: what a distribution calls it in a group, and what it names."""

    name: str
    value: str
    group: str

    @property
    def module(self) -> str | None:
        """The module that it names; None where it names none."""
        named = _MODULE.fullmatch(self.value)
        return named[1] if named is not None else None


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
    def of(cls, entry: Entry, error: BaseException) -> BrokenPlugin:
        """From what its import raised."""
        return cls(entry.name, f"{entry.value}: {one_line(error)}")


def entries(group: str) -> list[Entry]:
    """The entry points of a group."""
    return [entry for entry in _installed(tuple(sys.path)) if entry.group == group]


@lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> list[Entry]:
    """The entry points of all distributions on a path, the first of each name, also beside one whose metadata is
    damaged. They are read once, for all groups.

    As :func:`importlib.metadata.entry_points` reads them, which took a tenth of a start-up: it is asked where a
    distribution may be elsewhere than in a folder of the path."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if len(finders) != 1 or any(map(_is_elsewhere, path)):
        return _of_any_kind()
    found: dict[str, list[Entry]] = {}
    for folder in path:
        for name, file in _files(folder or "."):
            if name not in found:
                found[name] = _read(file)
    return list(dict.fromkeys(entry for every in found.values() for entry in every))


def _is_elsewhere(place: str) -> bool:
    return place.endswith(".egg") or os.path.isfile(place)  # noqa: PTH113 (Path's own may raise)


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """The metadata of a folder's distributions that may have entry points, by their normalised names."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (names, not thousands of Path objects)
    except OSError:
        return
    for name in names:
        if name.endswith(METADATA):
            yield canonical(name[:-10].partition("-")[0]), f"{folder}/{name}/{FILE}"


def _read(file: str) -> list[Entry]:
    """The entry points of a file; none where it is not there or cannot be read."""
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):  # one among hundreds, most likely of something else
        return []
    found, group = [], ""
    for line in lines:
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif line and not line.startswith("#") and group:
            name, equals, value = line.partition("=")
            if equals:
                found.append(Entry(name.strip(), value.strip(), group))
    return found


def _of_any_kind() -> list[Entry]:
    from contextlib import suppress
    from importlib.metadata import distributions, entry_points

    try:
        every = entry_points()
        found = [one for group in every.groups for one in every.select(group=group)]
    except Exception:  # one that cannot be read
        found = []
        for distribution in distributions():
            with suppress(Exception):
                found += distribution.entry_points
    return list(dict.fromkeys(Entry(one.name, one.value, one.group) for one in found))
