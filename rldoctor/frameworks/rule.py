"""One row of a dialect's table: which canonical name a native key stands for, and how values convert."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from rldoctor.formats.values import Unresolved
from rldoctor.records import dataclass


class Boolean(str, Enum):
    """How a boolean option is written on a command line."""

    VALUE = "value"
    """``--option true``"""
    FLAG = "flag"
    """``--option``, and nothing for false"""
    PAIRED = "paired"
    """``--option`` and ``--no-option``"""


@dataclass(frozen=True)
class Rule:
    """``read`` turns a native value into the canonical one (before the vocabulary's type is applied), ``write`` turns
    it back; a rule with ``read`` and without ``write`` is never written, nor is one with ``spelled`` false (an old
    name)."""

    option: str
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    boolean: Boolean | None = None
    spelled: bool = True
    carries: ClassVar[bool] = True
    """Whether its value can stand under another name of the same option."""

    def canonical(self, value: Any) -> Any:
        """The canonical value; what is null or unresolved stays so, what ``read`` cannot take becomes unresolved."""
        if self.read is None or value is None or isinstance(value, Unresolved):
            return value
        try:
            return self.read(value)
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            return Unresolved(str(value), f"{value!r} was not understood: {error}")

    def native(self, value: Any) -> Any:
        """The native value to write."""
        return value if self.write is None else self.write(value)


def inverted(option: str, boolean: Boolean | None = None) -> Rule:
    """A native switch that says the opposite of its canonical name (``disable_x`` for ``x``)."""
    return Rule(option, read=_opposite, write=_opposite, boolean=boolean)


def chosen(option: str, values: dict[Any, Any]) -> Rule:
    """Native words for canonical ones, both ways: ``chosen("rollout.async", {"async": True, "sync": False})``."""
    back = {canonical: native for native, canonical in reversed(values.items())}
    return Rule(option, read=lambda value: values.get(value, value), write=lambda value: back.get(value, value))


def report_to(value: Any) -> Any:
    """Trackers as transformers names them."""
    return "none" if value == "console" else value


def as_list(value: Any) -> list[Any]:
    """One value where a list of them is written."""
    return value if isinstance(value, list) else [value]


def _opposite(value: Any) -> Any:
    from rldoctor.formats.values import convert

    known = convert(value, "bool")
    return None if known is None else not known
