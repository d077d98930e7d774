"""Comparing versions as releases, so that ``0.24.0+cu129`` is not above ``0.24.0``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

# Python reads no number of more digits, and no package says so much.
_LONGEST = 4096


@lru_cache(maxsize=1024)
def parsed(version: str) -> Version | None:
    """The version, or None for what is none (``nightly``, ``precompiled``)."""
    from packaging.version import Version

    try:
        return Version(version)
    except ValueError:  # none, or a number of more digits than Python reads
        return None


def is_before(one: str, other: str) -> bool:
    """Whether the first is a version below the second; not where either is none."""
    first, second = parsed(one), parsed(other)
    return first is not None and second is not None and first < second


@lru_cache(maxsize=4096)
def specifiers(text: str) -> SpecifierSet:
    """The set of specifiers that a text such as ``>=0.15,<0.18`` stands for.

    Raises :class:`packaging.specifiers.InvalidSpecifier` for what is none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if len(text) > _LONGEST:
        raise InvalidSpecifier(f"{text[:32]}...")
    return SpecifierSet(text)


@lru_cache(maxsize=1024)
def version_within(version: str, specifier: str) -> bool | None:
    """Whether a version lies in a range such as ``>=0.15,<0.18``; None where it is no version.

    Development, pre- and local builds count as the release that they lead to, and a post release as the release that
    it mends, except beside a bound that names such a build itself: ``0.6.0.post1`` is not below ``0.6.0.post1``."""
    found = parsed(version)
    if found is None:
        return None
    bounds = specifiers(specifier)
    return all(bound.contains(_reported_apart(found, parsed(bound.version)), prereleases=True) for bound in bounds)


def _reported_apart(found: Version, bound: Version | None) -> str:
    """A version as far as a bound tells releases apart: what the bound does not name (a post release, say) is left
    out, with all that comes after it."""
    text = found.base_version
    if bound is None:  # `==0.7.*`
        return text
    for named, own, written in (
        (bound.pre, found.pre, "".join(map(str, found.pre or ()))),
        (bound.post, found.post, f".post{found.post}"),
        (bound.dev, found.dev, f".dev{found.dev}"),
    ):
        if own is None:
            continue
        if named is None:
            break
        text += written
    return text
