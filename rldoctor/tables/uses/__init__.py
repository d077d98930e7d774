"""What every release of a trainer imports from other packages. ``rldoctor.refresh`` makes the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rldoctor.tables import packed

DATA = Path(__file__).with_name("data")


class Table:
    """The imports of one package. ``releases`` are those read, oldest first."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.releases: list[str] = content["releases"]
        self._uses: dict[str, list[int]] = content["uses"]

    @staticmethod
    def packages() -> tuple[str, ...]:
        """The packages that have a table."""
        return packed.packages(DATA)

    @staticmethod
    @cache
    def load(package: str) -> Table:
        """The shipped table of a package. Raises ``KeyError`` where there is none."""
        return Table(packed.content(DATA, package))

    def of(self, release: str) -> tuple[tuple[str, str], ...]:
        """What a release imports, as module and name (empty for the module itself); nothing for one not read."""
        if release not in self.releases:
            return ()
        position = self.releases.index(release)
        found = (asked for asked, spans in self._uses.items() if _within(position, spans))
        return tuple((module, name) for module, _, name in (asked.partition(":") for asked in found))

    def rows(self) -> Iterator[tuple[str, list[int]]]:
        """Every import as ``module:name`` with the positions of the releases that make it."""
        for asked, spans in self._uses.items():
            yield asked, [p for first, last in _pairs(spans) for p in range(first, last + 1)]


def _pairs(spans: list[int]) -> Iterator[tuple[int, int]]:
    return zip(spans[::2], spans[1::2], strict=True)


def _within(position: int, spans: list[int]) -> bool:
    return any(first <= position <= last for first, last in _pairs(spans))
