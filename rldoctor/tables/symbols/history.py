"""The history of one name: since and until which release a package has it, and where the newest keeps it."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

from rldoctor.records import dataclass
from rldoctor.tables.symbols import Table

_FEW = 3  # modules that are told where a name is defined in several


@dataclass(frozen=True)
class History:
    """In which releases a package has something. ``spans`` are the oldest and newest of each stretch, ``first`` and
    ``newest`` the releases at the ends of the table, ``following`` the release read after each stretch (empty where it
    lasts). ``place`` is the module that it moved to, ``kept`` the release until which that has it (empty where the
    newest does); ``homes`` are the modules that define it where it moved to several, each with its releases."""

    package: str
    said: str
    spans: tuple[tuple[str, str], ...]
    following: tuple[str, ...]
    first: str
    newest: str
    place: str = ""
    kept: str = ""
    homes: tuple[str, ...] = ()

    @property
    def specifier(self) -> str:
        """The last stretch of releases as a requirement (``>=0.9.2,<0.12``); empty where all releases read have it, or
        none has. Where the newest of every minor release was read, patches are not told apart."""
        if not self.spans:
            return ""
        (since, until), after = self.spans[-1], self.following[-1]
        lower = f">={since}" if since != self.first else ""
        upper = f"<{after if _minor(after) == _minor(until) else _minor(after)}" if after else ""
        return ",".join(part for part in (lower, upper) if part)

    @property
    def wanted(self) -> str:
        """The releases to install for it as a requirement. What all releases read have, only one before them lacks;
        what none has, only one before them may have."""
        return self.specifier or (f">={self.first}" if self.spans else f"<{self.first}")

    def __str__(self) -> str:
        """Such as ``vllm has it in 0.8.5 to 0.11.2; 0.33.0 keeps it in vllm.utils.network_utils``."""
        if not self.spans:
            return f"no {self.package} from {self.first} to {self.newest} has it{self._moved}"
        if self.spans == ((self.first, self.newest),):
            return f"{self.package} has it in every release from {self.first} to {self.newest}"
        parts = []
        for (since, until), after in zip(self.spans, self.following, strict=True):
            start = f"{since} or earlier" if since == self.first else since
            parts.append(f"{start} to {until}" if after else f"{since} and later")
        return f"{self.package} has it in {' and '.join(parts)}{self._moved}"

    @property
    def _moved(self) -> str:
        if self.place and self.kept:
            return f"; {self.place} has it until {self.kept}"
        if self.place:
            return f"; {self.newest} keeps it in {self.place}"
        return f"; it is in {', '.join(self.homes)}" if self.homes else ""


def history(package: str, module: str, name: str = "") -> History | None:
    """The history of ``module.name``, or of a module; None where no table speaks about the package, or no release of it
    has the module."""
    try:
        table = Table.load(package)
    except KeyError:
        return None
    there = positions(table, module, name)
    if not name and not there and module in table.folders:  # a folder without __init__.py is a module as well
        inside = [other for other in table.modules() if other.startswith(f"{module}.")]
        there = {p for other in inside for p in positions(table, other, "")}
    if not (table.spans(module) if name else there):
        return None
    if name and there:  # a package gives its modules, bound in it or not
        there |= positions(table, f"{module}.{name}", "")
    if name and name not in table.steady:
        # A module with ``__getattr__`` or star imports gives more than it binds: what its package defines elsewhere.
        lazy = positions(table, module, "__getattr__") | positions(table, module, "*")
        there |= lazy & {p for home in table.homes(name) for p in positions(table, home, name)}
    if name:
        given, unknown = _of_others(table, module, name)
        there |= given
        if unknown - there:
            return None
    if name and not there and table.changes:
        return None  # all releases have it, or none
    found = history_at(table, package, f"{module}.{name}" if name else module, there)
    gone = not found.spans or found.following[-1] != ""
    if not gone or name in table.steady:
        return found
    place = _moved(table, module, name)
    if place or not name:
        return replace(found, place=place)
    place, kept = _moved_for_a_time(table, module, name, max(there, default=-1))
    return replace(found, place=place, kept=kept, homes=() if place or there else _definitions(table, module, name))


def history_at(table: Table, package: str, said: str, there: set[int]) -> History:
    """The history of what stands in the releases ``there``, by their number in the table."""
    stretches = [p for p in sorted(there) if p - 1 not in there], [p for p in sorted(there) if p + 1 not in there]
    names = [*table.releases, ""]
    spans = tuple((names[first], names[last]) for first, last in zip(*stretches, strict=True))
    following = tuple(names[last + 1] for last in stretches[1])
    return History(package, said, spans, following, table.releases[0], table.releases[-1])


def history_of(package: str, dotted: str) -> History | None:
    """The history of what a dotted name means: a module, a name in one, or a member of a class."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        found = history(package, ".".join(parts[:count]), ".".join(parts[count:]))
        if found is not None and (found.spans or count == len(parts) - 1):
            return found
    return None


def positions(table: Table, module: str, name: str) -> set[int]:
    """The releases, by their number, in which a module has a name."""
    position = {release: number for number, release in enumerate(table.releases)}
    return {p for s in table.spans(module, name) for p in range(position[s.since], position[s.until] + 1)}


def _of_others(table: Table, module: str, name: str) -> tuple[set[int], set[int]]:
    """The releases, by their number, in which a module has a name with all others of a module of Python's own, such as
    ``typing``, and those in which it has all names of another package's, which nobody knows here."""
    given: set[int] = set()
    unknown: set[int] = set()
    for star in table.stars(module):
        top = star.partition(".")[0]
        if top in sys.stdlib_module_names:
            given |= positions(table, module, f"*{star}") if hasattr(importlib.import_module(star), name) else set()
        elif top != module.partition(".")[0]:
            unknown |= positions(table, module, f"*{star}")
    return given, unknown


def _moved(table: Table, module: str, name: str) -> str:
    """The one module of the newest release that keeps what another had; empty where several might be meant."""
    newest = table.releases[-1]
    if not name:
        last = module.rpartition(".")[2]
        modules = [other for other in table.modules() if other.rpartition(".")[2] == last and other != module]
        found = [other for other in modules if any(span.until == newest for span in table.spans(other))]
        return found[0] if len(found) == 1 else ""
    homes = [
        home
        for home, spans in table.homes(name).items()
        if home != module and any(span.until == newest for span in spans)
    ]
    for chosen in ([home for home in homes if table.defines(home, name)], homes):
        near = [home for home in chosen if home.startswith(f"{module}.")]
        for found in (near, chosen):
            if len(found) == 1:
                return found[0]
    return ""


def _moved_for_a_time(table: Table, module: str, name: str, last: int) -> tuple[str, str]:
    """The module that kept a name after the one at hand, whose last release had the number ``last``, and until which
    release; nothing where several did. A package gives what a module below it defines."""
    until = {home: max(positions(table, home, name)) for home in table.homes(name) if home != module}
    latest = max(until.values(), default=-1)
    homes = sorted((home for home, end in until.items() if end == latest > last >= 0), key=len)
    if not homes or any(not home.startswith(f"{homes[0]}.") for home in homes[1:]):
        return "", ""
    return homes[0], table.releases[latest]


def _definitions(table: Table, module: str, name: str) -> tuple[str, ...]:
    """The few modules that define a name, each with the releases; nothing where they are many."""
    found = [(h, spans) for h, spans in table.homes(name).items() if h != module and table.defines(h, name)]
    said = (f"{home} ({spans[0].since} to {spans[-1].until})" for home, spans in found)
    return tuple(said) if len(found) <= _FEW else ()


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])
