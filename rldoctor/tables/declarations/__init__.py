"""What published releases declare about each other, from a dated table that ``make`` writes."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.records import dataclass
from rldoctor.versions import parsed

TABLE = Path(__file__).with_name("declared.json")


@dataclass(frozen=True)
class Release:
    """One published release: its ``Requires-Dist`` lines that concern the packages that matter, and its
    ``Requires-Python``. ``published`` is false for one that only its repository has."""

    version: str
    requires: tuple[str, ...]
    python: str | None
    yanked: bool = False
    published: bool = True

    @property
    def final(self) -> bool:
        """Whether it is no candidate, and was not withdrawn."""
        found = parsed(self.version)
        return found is not None and not found.is_prerelease and not self.yanked


def date() -> str:
    """The day since which no part of the table is older, like ``2026-11-20``."""
    return str(_table()["date"])


def source(name: str) -> str:
    """Where the table has a package's releases from: ``PyPI``, a repository, or both."""
    return str(_table()["packages"][name]["source"])


@lru_cache(maxsize=64)
def releases(name: str) -> tuple[Release, ...]:
    """Every release of a package that the table knows, oldest first; none for a package that it does not know."""
    entry = _table()["packages"].get(name, {"rows": (), "yanked": (), "source": ""})
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


def behind(name: str, version: str) -> str | None:
    """That an installed release is newer than every one the table knows, as a sentence; None where it is not."""
    known = [r.version for r in releases(name) if r.final]
    newest, installed = parsed(known[-1]) if known else None, parsed(version)
    if newest is None or installed is None or installed.base_version == newest.base_version or installed < newest:
        return None
    return f"{name} {version} is newer than what is known here of its releases ({known[-1]} on {date()})"


def forget() -> None:
    """Makes the next question read the table again, after it was written anew."""
    for kept in (_table, releases, release):
        kept.cache_clear()


@cache
def _table() -> Any:
    return msgspec.json.decode(TABLE.read_bytes())
