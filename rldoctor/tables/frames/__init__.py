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


class Table(PackedTable):
    """The layouts of one package."""

    folder = Path(__file__).with_name("data")

    def __init__(self, package: str, content: Mapping[str, Any]) -> None:
        super().__init__(package, content)
        self._modules: dict[str, list[list[Any]]] = content["modules"]

    def releases_of(self, frames: Iterable[Position]) -> tuple[str, ...]:
        """The releases that have every position in its function; what is no function, or in a module that no release
        has, is left out. Empty where no release fits, all where no frame was given."""
        fitting = set(range(len(self.releases)))
        for position in frames:
            layouts = self._modules.get(position.module)
            if layouts is not None and not position.function.startswith("<"):
                fitting &= {
                    release for layout, *spans in layouts if _within(layout, position) for release in positions(spans)
                }
        return tuple(self.releases[release] for release in sorted(fitting))

    def covers(self, module: str) -> bool:
        """Whether a release has the module."""
        return module in self._modules

    def modules(self, at: Iterable[int]) -> Iterator[str]:
        """The modules with a function that the releases at these positions all have."""
        wanted = set(at)
        for module, layouts in self._modules.items():
            if wanted <= {release for _, *spans in layouts for release in positions(spans)}:
                yield module

    def last_with(self, module: str, function: str) -> str | None:
        """The newest release that has a function of that name in the module; None where none has."""
        found = (
            max(spans)
            for layout, *spans in self._modules.get(module, ())
            if any(name == function for name, _, _ in functions_of(layout))
        )
        newest = max(found, default=None)
        return self.releases[newest] if newest is not None else None

    def rows(self) -> Iterable[tuple[tuple[str, str], list[int]]]:
        """Module and layout, with the positions of its releases."""
        for module, layouts in self._modules.items():
            for layout, *spans in layouts:
                yield (module, layout), positions(spans)


def functions_of(layout: str) -> list[tuple[str, int, int]]:
    """Name, depth and first line of the functions of a layout (``name depth lines-after-the-one-before``, joined by
    semicolons), in their order."""
    found = []
    line = 0
    for part in layout.split(";") if layout else ():
        name, depth, gap = part.split()
        line += int(gap)
        found.append((name, int(depth), line))
    return found


def _within(layout: str, position: Position) -> bool:
    """Whether the line lies in a function of that name: behind its first, before the next one that is not deeper."""
    functions = functions_of(layout)
    for number, (name, depth, first) in enumerate(functions):
        if name == position.function and first < position.line:
            after = (line for _, other, line in functions[number + 1 :] if other <= depth)
            if position.line < next(after, position.line + 1):
                return True
    return False
