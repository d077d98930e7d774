"""Where the functions of every release of a package begin, so that the frames of a traceback tell the release.

``rldoctor.refresh`` makes the tables. Of each module there are the distinct layouts of its functions, each with the
releases that have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rldoctor.records import dataclass
from rldoctor.tables.packed import PackedTable, positions


@dataclass(frozen=True)
class Position:
    """One frame of a traceback: the module, the function as Python prints it, the line."""

    module: str
    function: str
    line: int


# The functions of a module as ``name depth``, joined by semicolons, and for each the lines after the one before: apart,
# since like beside like packs a seventh smaller.
Layout = tuple[str, str]


class Table(PackedTable):
    """The layouts of one package."""

    folder = Path(__file__).with_name("data")

    def __init__(self, package: str, content: Mapping[str, Any]) -> None:
        super().__init__(package, content)
        names = content["modules"]
        columns = zip(content["functions"], content["lines"], content["spans"], strict=True)
        self._modules: dict[str, tuple[str, str, str]] = dict(zip(names, columns, strict=True))

    def releases_of(self, frames: Iterable[Position]) -> tuple[str, ...]:
        """The releases that have every position in its function; what is no function, or in a module that no release
        has, is left out. Empty where no release fits, all where no frame was given."""
        fitting = set(range(len(self.releases)))
        for position in frames:
            if self.covers(position.module) and not position.function.startswith("<"):
                layouts = self._layouts(position.module)
                fitting &= {release for layout, at in layouts if _within(layout, position) for release in at}
        return tuple(self.releases[release] for release in sorted(fitting))

    def covers(self, module: str) -> bool:
        """Whether a release has the module."""
        return module in self._modules

    def modules(self, at: Iterable[int]) -> Iterator[str]:
        """The modules with a function that the releases at these positions all have."""
        wanted = set(at)
        for module in self._modules:
            if wanted <= {release for _, there in self._layouts(module) for release in there}:
                yield module

    def last_with(self, module: str, function: str) -> str | None:
        """The newest release that has a function of that name in the module; None where none has."""
        layouts = self._layouts(module)
        found = (max(at) for layout, at in layouts if any(name == function for name, _, _ in functions_of(layout)))
        newest = max(found, default=None)
        return self.releases[newest] if newest is not None else None

    def rows(self) -> Iterator[tuple[tuple[str, Layout], list[int]]]:
        """Module and layout, with the positions of its releases."""
        for module in self._modules:
            yield from (((module, layout), there) for layout, there in self._layouts(module))

    def _layouts(self, module: str) -> Iterator[tuple[Layout, list[int]]]:
        columns = self._modules.get(module, ())
        for functions, lines, spans in zip(*(column.split("\n") for column in columns), strict=True):
            yield (functions, lines), positions([*map(int, spans.split())])


def functions_of(layout: Layout) -> list[tuple[str, int, int]]:
    """Name, depth and first line of the functions of a layout, in their order."""
    found = []
    line = 0
    functions, lines = layout
    for part, gap in zip(functions.split(";") if functions else (), lines.split(), strict=True):
        name, depth = part.split()
        line += int(gap)
        found.append((name, int(depth), line))
    return found


def _within(layout: Layout, position: Position) -> bool:
    """Whether the line lies in a function of that name: behind its first, before the next one that is not deeper."""
    functions = functions_of(layout)
    for number, (name, depth, first) in enumerate(functions):
        if name == position.function and first < position.line:
            after = (line for _, other, line in functions[number + 1 :] if other <= depth)
            if position.line < next(after, position.line + 1):
                return True
    return False
