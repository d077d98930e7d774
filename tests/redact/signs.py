"""Whether a sign stands in whatever an expression matches, by following all ways through it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
MOST_LETTERS = 5
LONGEST_SIGN = 24
State = tuple[bool, str]


def ways_without(pattern: str, is_sign: Callable[[str], bool]) -> list[str]:
    """The letters at the end of each way through an expression on which none was a sign; ``is_sign`` tells it of the
    letters that have come."""
    return [letters for found, letters in _followed(parser.parse(pattern), {(is_sign(""), "")}, is_sign) if not found]


def _followed(parts: Iterable[tuple[Any, Any]], states: set[State], is_sign: Callable[[str], bool]) -> set[State]:
    """All ways through an expression: whether a sign has come, and the letters that stand for certain at the end."""
    for kind, given in parts:
        name = str(kind)
        if name == "LITERAL":
            states = _stepped(states, chr(given), is_sign)
        elif name == "SUBPATTERN":
            states = _followed(given[3], states, is_sign)
        elif name == "BRANCH":
            states = set().union(*(_followed(way, states, is_sign) for way in given[1]))
        elif name == "MAX_REPEAT" or name == "MIN_REPEAT":
            least, most, repeated = given
            once = _followed(repeated, states, is_sign)
            again = once if most == 1 else _apart(once)
            states = again if least else states | again
        elif name == "IN" and len(given) <= MOST_LETTERS and all(str(one) == "LITERAL" for one, _ in given):
            states = set().union(*(_stepped(states, chr(letter), is_sign) for _, letter in given))
        elif name == "ASSERT" and given[0] < 0:  # what stands before it
            states = _followed(given[1], _apart(states), is_sign)
        elif name not in ("AT", "ASSERT", "ASSERT_NOT"):
            states = _apart(states)
    return states


def _stepped(states: set[State], letter: str, is_sign: Callable[[str], bool]) -> set[State]:
    grown = ((found, letters + letter) for found, letters in states)
    return {(True, "") if found or is_sign(letters) else (False, letters[-LONGEST_SIGN:]) for found, letters in grown}


def _apart(states: set[State]) -> set[State]:
    return {(found, "") for found, _ in states}
