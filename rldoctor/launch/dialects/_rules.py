"""Rows of a table that more than one framework needs: keys that only count together with others, sizes in GB."""

from __future__ import annotations

from typing import Any

from rldoctor.launch.dialects import Dialect, Draft
from rldoctor.launch.native import Native
from rldoctor.launch.rule import Rule


class Decided(Rule):
    """A key that says something of an option which only the derivations can tell, together with other keys: it is
    understood, and sets nothing by itself."""


def decided(option: str) -> Rule:
    """A row for such a key."""
    return Decided(option, read=lambda value: None, write=lambda value: value)


def gigabytes(option: str) -> Rule:
    """A native size in GB for a canonical one in MiB."""
    return Rule(option, read=_megabytes, write=lambda size: size / 1024)


def _megabytes(size: Any) -> int:
    return int(float(size) * 1024)


def below(section: str, names: str) -> tuple[str, ...]:
    """Patterns of keys below a section, from their last parts written one after the other."""
    return tuple(f"{section}.{name}" for name in names.split())


class Deciding(Dialect):
    """A dialect whose table has such keys."""

    def take(self, draft: Draft, native: Native) -> None:
        found = self.rules().get(native.key)
        if isinstance(found, Decided):
            self.check_known(draft, native)
            draft.record(native, found.option)
        else:
            super().take(draft, native)
