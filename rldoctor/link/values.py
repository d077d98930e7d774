"""What an expression can be known to be without running it: a constant, a version, a module, an object, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor.records import dataclass


@dataclass(frozen=True)
class Known:
    """A plain Python value: text, number, bool, None, a tuple of such, or a :class:`packaging.version.Version`."""

    value: Any


@dataclass(frozen=True)
class Module:
    """A module by its dotted name."""

    name: str


@dataclass(frozen=True)
class Object:
    """Something that a module defines: a class, a function, a value that was not worked out."""

    module: str
    name: str

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Settings:
    """The settings of a launch below a dotted name, as one object; the empty name stands for all of them."""

    name: str

    def below(self, name: str) -> str:
        """The dotted name of one of them."""
        return f"{self.name}.{name}" if self.name else name


@dataclass(frozen=True)
class Made:
    """The object that Hydra makes of a section of the settings: one of the class that its ``_target_`` names, with the
    values that stood below the section then."""

    section: str
    below: Mapping[str, Value]


@dataclass(frozen=True)
class Several:
    """A tuple of which only the length is known, and the function that returned it."""

    size: int
    by: Object


class _NotKnown:
    def __repr__(self) -> str:
        return "NOT_KNOWN"


NOT_KNOWN = _NotKnown()
Value = Known | Module | Object | Settings | Made | Several | _NotKnown

TRUE, FALSE, NONE = Known(True), Known(False), Known(None)


def truth(value: Value) -> bool | None:
    """Whether a value counts as true; None where that is not known. Modules, classes, functions and
    sections of settings do."""
    if isinstance(value, Known):
        return bool(value.value)
    if isinstance(value, Several):
        return value.size > 0
    return True if isinstance(value, Module | Object | Settings | Made) else None
