"""Comparing versions on the base version, so that ``0.24.0+cu129`` is not above ``0.24.0``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version


@lru_cache(maxsize=1024)
def parsed(version: str) -> Version | None:
    """The version, or None for what is none (``nightly``, ``precompiled``)."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version)
    except InvalidVersion:
        return None


@lru_cache(maxsize=1024)
def version_within(version: str, specifier: str) -> bool | None:
    """Whether a version lies in a range such as ``>=0.15,<0.18``; None where it is no version. Development and local
    builds count as the release that they lead to."""
    from packaging.specifiers import SpecifierSet

    found = parsed(version)
    return None if found is None else SpecifierSet(specifier).contains(found.base_version, prereleases=True)
