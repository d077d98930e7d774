"""What every release of a trainer imports from other packages. ``rldoctor.refresh`` makes the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rldoctor.tables.packed import PackedTable, positions, stretches


class Table(PackedTable):
    """The imports of one package."""

    folder = Path(__file__).with_name("data")

    def __init__(self, package: str, content: Mapping[str, Any]) -> None:
        super().__init__(package, content)
        self._uses: dict[str, list[int]] = content["uses"]

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
            yield asked, positions(spans)


def _within(position: int, spans: list[int]) -> bool:
    return any(first <= position <= last for first, last in stretches(spans))
