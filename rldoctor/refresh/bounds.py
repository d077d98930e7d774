"""Computes from the tables of imports and of symbols which releases of a package have all that another one imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from rldoctor.refresh import symbols, uses
from rldoctor.refresh.releases import Publications
from rldoctor.tables.symbols import Table as Symbols
from rldoctor.tables.symbols.history import history_of
from rldoctor.tables.uses import Table as Uses
from rldoctor.tables.uses.bounds import FILE, Bound, Stretch, stretches
from rldoctor.versions import parsed

COVERED = (*symbols.COVERED, *uses.COVERED)


def refresh(package: str, published: Publications, say: Callable[[str], None]) -> list[str]:
    """Computes all of them anew, for each side may have changed. Returns what changed, a line each."""
    before = stretches() if FILE.exists() else {}
    found = {name: tuple(_stretches(name)) for name in Uses.packages()}
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    stretches.cache_clear()
    return [line for name in found if found[name] != before.get(name, ()) for line in changes(name, before, found)]


def changes(name: str, before: Mapping[str, Sequence[Stretch]], found: Mapping[str, Sequence[Stretch]]) -> list[str]:
    """What the newest release can stand beside otherwise than the newest could before."""
    old, new = (ends[name][-1].bounds if ends.get(name) else () for ends in (before, found))
    if old == new:
        return [f"the ends of {name} changed, not those of its newest release"]
    newest = f"{name} {found[name][-1].releases[-1]}"
    said = [f"{newest}: {one.package}{one.specifier}, for {one.name}" for one in new if one not in old]
    return said + [f"{newest}: no longer {one.package}{one.specifier}, for {one.name}" for one in old if one not in new]


def _stretches(package: str) -> Iterator[Stretch]:
    table = Uses.load(package)

    def ends(release: str) -> tuple[Bound, ...]:
        return tuple(_bounds(table.of(release)))

    for found, group in groupby(table.releases, key=ends):
        yield Stretch(tuple(group), found)


def _bounds(asked: tuple[tuple[str, str], ...]) -> Iterator[Bound]:
    names = {f"{module}.{name}".removesuffix(".") for module, name in asked}
    for package in Symbols.packages():
        if Symbols.load(package).changes:
            continue  # what all of its releases have is not told from what none has
        yield from _ends(package, sorted(name for name in names if name.startswith(f"{package}.")))


def _ends(package: str, names: list[str]) -> Iterator[Bound]:
    """At most one lower and one upper end: those that leave the fewest releases. A name that no release read has says
    nothing."""
    releases = Symbols.load(package).releases
    first, last = (0, ""), (len(releases) - 1, "")
    for name in names:
        known = history_of(package, name)
        if known is None or not known.spans:
            continue
        since, until = releases.index(known.spans[0][0]), releases.index(known.spans[-1][1])
        first, last = max(first, (since, name), key=_place), min(last, (until, name), key=_place)
    if first[0] > last[0]:
        return  # no release has it all: some name is found otherwise than by its text
    if first[0] > 0:
        yield Bound(package, f">={_since(releases, first[0])}", first[1], releases[first[0] - 1])
    if last[0] < len(releases) - 1:
        lacking = releases[last[0] + 1]
        yield Bound(package, f"<{lacking.removesuffix('.0')}", last[1], lacking)


def _since(releases: list[str], position: int) -> str:
    """A release as a lower end: its minor release, where that begins with it."""
    release, before = (parsed(releases[p]) for p in (position, position - 1))
    begins = release is None or before is None or release.release[:2] != before.release[:2]
    return ".".join(releases[position].split(".")[:2]) if begins else releases[position]


def _place(end: tuple[int, str]) -> int:
    return end[0]
