"""Values as launch files hold them: what cannot be known, text that means a number, and conversion to a type."""

from __future__ import annotations

import re
from typing import Any

from rldoctor.records import dataclass
from rldoctor.redact.marks import has_mark


@dataclass(frozen=True)
class Unresolved:
    """A value that reading alone cannot know: its text in the file, and why."""

    raw: str
    why: str


@dataclass(frozen=True)
class Refused(Unresolved):
    """A value that the program which reads it refuses: ``why`` is what its grammar lacks."""


# Why a value with the mark of a secret is not known, where more than its text is asked for.
SECRET = "what brings it has a secret's name, and secrets are not read"


# YAML 1.1 as PyYAML and OmegaConf read it, which is what the frameworks use; ``1e-6`` counts as a number as in
# OmegaConf.
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NULL = frozenset({"", "~", "null"})
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")
_HEX = re.compile(r"[-+]?0x[0-9a-fA-F_]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.?(inf|nan)\Z", re.IGNORECASE)
MAX_DIGITS = 300


def scalar(text: str) -> Any:
    """What unquoted ``text`` means in YAML, Hydra and on most command lines: null, bool, int, float or the text
    itself."""
    lowered = text.lower()
    if lowered in _NULL:
        return None
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    if len(text) > MAX_DIGITS:
        return text
    if _INT.match(text):
        return int(text.replace("_", ""))
    if _HEX.match(text):
        return int(text.replace("_", ""), 16)
    if _FLOAT.match(text) or _SPECIAL_FLOAT.match(text):
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text


def convert(value: Any, kind: str) -> Any:
    """``value`` as a vocabulary type (``int``, ``size``, ``float``, ``bool``, ``str``, ``list``, ``dict``, ``any``).

    None and :class:`Unresolved` pass through, and what a secret stands in is the latter but for texts. Raises
    ValueError with the reason where the value cannot be of that type."""
    if value is None or isinstance(value, Unresolved):
        return value
    if isinstance(value, str) and kind in _TYPED and has_mark(value):
        return Unresolved(value, SECRET)
    return _CONVERTERS[kind](value)


_TYPED = frozenset({"int", "size", "float", "bool"})


def _typed(value: Any) -> Any:
    """A text as the scalar it means where a number or a truth value is expected; there ``None`` is Python's."""
    if not isinstance(value, str):
        return value
    return None if value.strip().lower() == "none" else scalar(value.strip())


def _int(value: Any) -> int | None:
    number = _typed(value)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or number != number // 1:
        raise ValueError(f"{value!r} is not a whole number")
    return int(number)


def _size(value: Any) -> int | None:
    number = _int(value)
    if number is not None and number < 1:
        raise ValueError(f"{value!r} is less than 1")
    return number


def _float(value: Any) -> float | None:
    number = _typed(value)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{value!r} is not a number")
    return number


def _bool(value: Any) -> bool | None:
    known: Any = _typed(value)
    if known is None or isinstance(known, bool):
        return known
    if known in (0, 1) or known in ("t", "y", "T", "Y"):
        return bool(known != 0)
    if known in ("f", "n", "F", "N"):
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _str(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | dict):
        raise ValueError(f"{value!r} is not one text")
    return str(value)


def _list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        raise ValueError(f"{value!r} is not a list")
    if isinstance(value, str):
        return [scalar(part.strip()) for part in value.strip("[]").split(",") if part.strip()]
    return [value]


def _dict(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        from rldoctor.formats.json_text import parse

        value = parse(value)
    if isinstance(value, dict):
        return value
    raise ValueError(f"{value!r} is not a dictionary")


def _any(value: Any) -> Any:
    """A text as what it means by itself: JSON, a number, a truth value, or the text."""
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] in ("{", "["):
        from rldoctor.formats.json_text import parse

        try:
            return parse(value)
        except ValueError:
            return value
    return scalar(value)


_CONVERTERS = {
    "any": _any,
    "int": _int,
    "size": _size,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "list": _list,
    "dict": _dict,
}


def whole(value: Any) -> Any:
    """``value`` with any part that is unknown making the whole unknown: what a plan, which is JSON, can hold."""
    found = _first_unresolved(value)
    return found if found is not None else _plain(value)


def _first_unresolved(value: Any) -> Unresolved | None:
    if isinstance(value, Unresolved):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((found for part in parts if (found := _first_unresolved(part)) is not None), None)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
