"""Every message with which a release of a package can end: the atlas. ``rldoctor.refresh`` makes its tables.

A message is one place that raises, asserts or refuses; ``match`` finds the one that a failure shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rldoctor.records import dataclass
from rldoctor.tables.packed import PackedTable, positions, stretches

# What separates the literal parts of a template from the expressions in its holes; no source text holds it.
HOLE = "\x7f"
# The innermost of those around a place are kept.
MOST_CONDITIONS = 3
# Stand before the conditions where they do not tell all that has to hold, where a field that they read may have another
# value by then than its object was given, and where nobody knows whether the method that asks them is called.
CUT, CHANGED, UNCALLED = MARKS = "...", "(...)", "(...)()"


@dataclass(frozen=True)
class Place:
    """One message of a package, and the stretches of releases, oldest and newest of each, in which it stands. The other
    fields are those of :class:`rldoctor.refresh.message_sites.Message`; ``whole`` and ``steady`` say that no mark
    stands before its conditions."""

    package: str
    module: str
    function: str
    type: str
    template: str
    conditions: tuple[str, ...]
    spans: tuple[tuple[str, str], ...]
    whole: bool = True
    steady: bool = True

    @property
    def literals(self) -> list[str]:
        """The literal parts of the template, the holes between them."""
        return self.template.split(HOLE)[::2]

    @property
    def holes(self) -> list[str]:
        """The expressions of the holes."""
        return self.template.split(HOLE)[1::2]


# The longest literal part of a message and all of them, its module and function, its row.
_Literals = tuple[str, list[str], str, str, list[Any]]


class Table(PackedTable):
    """The messages of one package; ``made_by`` is what :func:`rldoctor.refresh.messages.made_by` was when they were
    read."""

    folder = Path(__file__).with_name("data")

    def __init__(self, package: str, content: Mapping[str, Any]) -> None:
        super().__init__(package, content)
        self.made_by: str = content.get("made_by", "")
        self._modules: dict[str, dict[str, list[list[Any]]]] = content["modules"]
        self._by_type: dict[tuple[str, str], list[_Literals]] = {}

    def within(
        self, module: str, below: bool = False, wanted: Callable[[str], bool] = lambda function: True
    ) -> Iterator[Place]:
        """The messages of one module, in any release, and of those ``below`` it, of the functions that are
        ``wanted``."""
        names = (name for name in self._modules if name.startswith(f"{module}.")) if below else ()
        for name in (module, *names):
            for function, rows in self._modules.get(name, {}).items():
                if wanted(function):
                    yield from (self._place(name, function, row) for row in rows)

    def holding(self, type_: str, text: str, shortest: int) -> Iterator[Place]:
        """The messages of a type of which every literal part stands in ``text``, and the longest has ``shortest``
        characters."""
        yield from self._holding(self._literals(type_), text, shortest)

    def holding_unspaced(self, type_: str, text: str, shortest: int) -> Iterator[Place]:
        """The same without any blank: of a ``text`` that lost those at which its lines were wrapped."""
        yield from self._holding(self._literals(type_, blank=""), "".join(text.split()), shortest)

    def _holding(self, rows: Iterable[_Literals], text: str, shortest: int) -> Iterator[Place]:
        for longest, parts, module, function, row in rows:
            if len(longest) >= shortest and longest in text and all(part in text for part in parts):
                yield self._place(module, function, row)

    def beginning(self, type_: str, text: str) -> Iterator[Place]:
        """The messages of a type that may begin as ``text`` does, which was cut somewhere behind."""
        for _, (first, *further), module, function, row in self._literals(type_):
            begins = text.startswith(first) if len(first) < len(text) else first.startswith(text)
            if begins and (first or not further or further[0] in text):
                yield self._place(module, function, row)

    def _literals(self, type_: str, blank: str = " ") -> list[_Literals]:
        """The messages of a type behind their longest literal part and all of them, with this for a blank. A log asks
        for each of its failures."""
        kept = (type_, blank)
        if kept not in self._by_type:
            rows = (
                ([part.replace(" ", blank) for part in row[1].split(HOLE)[::2]], module, function, row)
                for module, functions in self._modules.items()
                for function, rows in functions.items()
                for row in rows
                if row[0] == type_
            )
            self._by_type[kept] = [(max(parts, key=len), parts, m, f, row) for parts, m, f, row in rows]
        return self._by_type[kept]

    def conditions(self, at: Sequence[int]) -> Iterator[tuple[str, str, list[str]]]:
        """The module, the function and the conditions of every message that the releases at these positions all have
        under some condition."""
        for module, functions in self._modules.items():
            for function, rows in functions.items():
                for _, _, conditions, *spans in rows:
                    if conditions and all(any(first <= one <= last for first, last in stretches(spans)) for one in at):
                        yield module, function, conditions

    def rows(self) -> Iterator[tuple[tuple[str, str, str, str, tuple[str, ...]], list[int]]]:
        """Every message as ``(module, function, type, template, conditions)`` with the positions of its releases."""
        for module, functions in self._modules.items():
            for function, rows in functions.items():
                for type_, template, conditions, *spans in rows:
                    yield (module, function, type_, template, tuple(conditions)), positions(spans)

    def _place(self, module: str, function: str, row: list[Any]) -> Place:
        type_, template, conditions, *spans = row
        mark = conditions[0] if conditions and conditions[0] in MARKS else ""
        return Place(
            self.package,
            module,
            function,
            type_,
            template,
            tuple(conditions[bool(mark) :]),
            tuple((self.releases[first], self.releases[last]) for first, last in stretches(spans)),
            mark not in (CUT, UNCALLED),
            not mark,
        )
