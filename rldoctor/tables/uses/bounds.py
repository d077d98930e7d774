"""Which releases of another package have all that a release imports from it. ``rldoctor.refresh`` computes it from the
tables of imports and of symbols, which are too large to be read for every check."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from rldoctor.versions import parsed

FILE = Path(__file__).with_name("bounds.json")


class Bound(msgspec.Struct, frozen=True):
    """One end of the releases of ``package`` that have what is imported: ``specifier`` is ``<0.12``, below the first
    release read that ``lacks`` the ``name``, or ``>=0.9``, the first minor release that has it."""

    package: str
    specifier: str
    name: str
    lacks: str


class Stretch(msgspec.Struct, frozen=True):
    """Releases of a package one after the other, with the same ends."""

    releases: tuple[str, ...]
    bounds: tuple[Bound, ...]


def bounds(package: str, version: str) -> tuple[Bound, ...]:
    """The ends of what a release of ``package`` can stand beside, by what it imports whatever the versions. Nothing for
    a release that was not read."""
    found = parsed(version)
    forms = {version, found.base_version} if found is not None else set()
    return next((one.bounds for one in stretches().get(package, ()) if forms & set(one.releases)), ())


@cache
def stretches() -> dict[str, tuple[Stretch, ...]]:
    """The releases of every package, oldest first."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, tuple[Stretch, ...]])
