"""Which of the releases that a table has read answers for one that it has not."""

from __future__ import annotations

from collections.abc import Sequence

from rldoctor.versions import parsed


def read_for(releases: Sequence[str], release: str) -> int | None:
    """The position of a release among those read (oldest first), or of the one read in its stead: the newest of its
    minor release, else the last before it. None where it is no version, or older than all."""
    at = parsed(release)
    versions = [parsed(read) for read in releases]
    if at is None:
        return None
    same = [p for p, v in enumerate(versions) if v is not None and v.release[:2] == at.release[:2]]
    later = [p for p in same if (v := versions[p]) is not None and v.release >= at.release]
    before = [p for p, v in enumerate(versions) if v is not None and v.release <= at.release]
    return next(iter((*later, *same[-1:], *before[-1:])), None)
