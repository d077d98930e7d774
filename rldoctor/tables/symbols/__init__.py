"""Which release of a package defines which name in which module, from tables that ``make`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from rldoctor.records import dataclass
from rldoctor.tables.packed import PackedTable
from rldoctor.tables.symbols.columns import Names, module_of, names_of


@dataclass(frozen=True)
class Span:
    """Releases one after the other, oldest and newest, in which a name stood. ``parameters`` are those of a callable as
    ``a,b=,*,c=,**``."""

    since: str
    until: str
    parameters: str = ""


class Table(PackedTable):
    """The symbols of one package. ``releases`` are all, or the newest of every minor release; ``changes`` says that
    what all of them have alike is left out, ``steady`` for which names one place is."""

    folder = Path(__file__).with_name("data")

    def __init__(self, package: str, content: Mapping[str, Any]) -> None:
        super().__init__(package, content)
        self.changes: bool = content.get("changes", False)
        self.steady: frozenset[str] = frozenset(content.get("steady", ()))
        numbers = {module: number for number, module in enumerate(content["modules"])}
        self._columns = {m: tuple(content[c][n] for c in ("names", "spans", "parameters")) for m, n in numbers.items()}
        self._read: dict[str, Names] = {}
        self._homes: dict[str, dict[str, tuple[Span, ...]]] = {}

    def spans(self, module: str, name: str = "") -> tuple[Span, ...]:
        """The releases in which ``module`` defines ``name`` (``Class.member`` for a member), or in which the module
        itself is there; neighbours with other parameters are spans of their own."""
        held = self._module(module).get(name, [])
        return tuple(Span(self.releases[s[0]], self.releases[s[1]], s[2] if len(s) > 2 else "") for s in held)

    def homes(self, name: str) -> Mapping[str, tuple[Span, ...]]:
        """Every module that ever defined a name, with the releases."""
        if name not in self._homes:
            last = name.rpartition(".")[2]
            near = (module for module, (names, _, _) in self._columns.items() if last in names)
            found = {module: self.spans(module, name) for module in near if name in self._module(module)}
            self._homes[name] = found
        return self._homes[name]

    def defines(self, module: str, name: str) -> bool:
        """Whether the module itself defines the class or function, and does not only import it: it has its members, or
        its parameters."""
        names = self._module(module)
        return any(other.startswith(f"{name}.") for other in names) or any(len(s) > 2 for s in names.get(name, ()))

    def modules(self) -> tuple[str, ...]:
        """Every module that a release had."""
        return tuple(self._columns)

    @cached_property
    def folders(self) -> frozenset[str]:
        """What stands over a module, with an ``__init__.py`` or without."""
        parents = ([*accumulate(module.split(".")[:-1], "{}.{}".format)] for module in self._columns)
        return frozenset(chain.from_iterable(parents))

    def names(self, module: str) -> tuple[str, ...]:
        """Every name that a module had in some release, members of its classes as ``Class.member``."""
        return tuple(names_of(self._columns[module][0])) if module in self._columns else ()

    def stars(self, module: str) -> tuple[str, ...]:
        """The modules of which it takes over all names."""
        column = self._columns[module][0] if module in self._columns else ""
        found = names_of(column) if "*" in column else ()
        return tuple(name[1:] for name in found if len(name) > 1 and name[0] == "*")

    def at(self, release: str) -> dict[str, dict[str, str]]:
        """The names of every module in one release that was read, with their parameters."""
        position = self.releases.index(release)
        found: dict[str, dict[str, str]] = {}
        for module in self._columns:
            for name, spans in self._module(module).items():
                said = next((s[2] if len(s) > 2 else "" for s in spans if s[0] <= position <= s[1]), None)
                if said is not None and name:
                    found.setdefault(module, {})[name] = said
                elif said is not None:
                    found.setdefault(module, {})
        return found

    def _module(self, module: str) -> Names:
        if module not in self._columns:
            return {}
        if module not in self._read:
            self._read[module] = module_of(*self._columns[module])
        return self._read[module]
