"""What published releases declare about each other, from the dated table that ``rldoctor.knowledge.refresh`` builds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rldoctor.knowledge import table
from rldoctor.versions import parsed


@dataclass(frozen=True)
class Release:
    """One published release: its ``Requires-Dist`` lines that concern the packages that matter, and its
    ``Requires-Python``. ``published`` is false for one that only its repository has."""

    version: str
    requires: tuple[str, ...]
    python: str | None
    yanked: bool = False
    published: bool = True


def date() -> str:
    """The day since which no part of the table is older, like ``2026-11-20``."""
    return str(table("declared")["date"])


def source(name: str) -> str:
    """Where the table has a package's releases from: ``PyPI``, a repository, or both."""
    return str(table("declared")["packages"][name]["source"])


@lru_cache(maxsize=64)
def releases(name: str) -> tuple[Release, ...]:
    """Every release of a package that the table knows, oldest first; none for a package that it does not know."""
    entry = table("declared")["packages"].get(name, {"rows": (), "yanked": (), "source": ""})
    yanked, unpublished = frozenset(entry["yanked"]), frozenset(entry.get("unpublished", ()))
    offered = "PyPI" in entry["source"]
    return tuple(
        Release(
            version, tuple(row["requires"]), row["python"], version in yanked, offered and version not in unpublished
        )
        for row in entry["rows"]
        for version in row["versions"]
    )


@lru_cache(maxsize=256)
def release(name: str, version: str) -> Release | None:
    """The release of that version, whatever its local label, or None where the table has none."""
    public = version.partition("+")[0]
    exact = next((r for r in releases(name) if r.version == public), None)
    if exact is not None:
        return exact
    wanted = parsed(public)
    return next((r for r in releases(name) if wanted is not None and parsed(r.version) == wanted), None)
