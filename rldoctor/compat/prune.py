"""Finds the fewest of a set of changes that already make an environment consistent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rldoctor.compat.model import Clash, Versions

Clashes = Callable[[Versions], Iterable[Clash]]


def changed(old: Versions, new: Versions) -> frozenset[str]:
    """The packages that are in another version, or only there, in ``new``."""
    return frozenset(name for name, distribution in new.items() if old.get(name) != distribution)


def mixed(old: Versions, new: Versions, names: Iterable[str]) -> Versions:
    """The old versions with those of ``names`` moved to the new ones."""
    return {**old, **{name: new[name] for name in names}}


def fewest(old: Versions, new: Versions, clashes: Clashes) -> frozenset[str]:
    """The smallest part of the changes from ``old`` to ``new`` (which is consistent) that is consistent by itself.

    Being smallest, no part of it is consistent. A clash lasts until one of the packages involved in it changes, so only
    those are tried: every consistent part that holds the changes made so far also holds one of them."""
    names = changed(old, new)
    for size in range(len(names) + 1):
        found = _search(old, new, names, frozenset(), size, clashes, set())
        if found is not None:
            return found
    raise ValueError("the new versions are not consistent")


def _search(
    old: Versions,
    new: Versions,
    names: frozenset[str],
    made: frozenset[str],
    left: int,
    clashes: Clashes,
    seen: set[frozenset[str]],
) -> frozenset[str] | None:
    if made in seen:
        return None
    seen.add(made)
    open_clashes = list(clashes(mixed(old, new, made)))
    if not open_clashes:
        return made
    if left == 0:
        return None
    # The clash that leaves the least choice first.
    options = min((sorted(clash.involved & (names - made)) for clash in open_clashes), key=len)
    for name in options:
        found = _search(old, new, names, made | {name}, left - 1, clashes, seen)
        if found is not None:
            return found
    return None
