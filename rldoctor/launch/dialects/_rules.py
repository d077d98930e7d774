"""Rows of a table that more than one framework needs: keys that only count together with others, sizes in GB."""

from __future__ import annotations

from typing import Any

from rldoctor.launch.rule import Rule


def decided(option: str) -> Rule:
    """A key that says something of ``option`` which only the derivations can tell, together with other keys."""
    return Rule(option, read=lambda value: None, write=lambda value: value)


def gigabytes(option: str) -> Rule:
    """A native size in GB for a canonical one in MiB."""
    return Rule(option, read=_megabytes, write=lambda size: size / 1024)


def _megabytes(size: Any) -> int:
    return int(float(size) * 1024)
