"""Numbers as frameworks print them: plain, quoted, rounded, wrapped in numpy's or torch's repr, or absent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z")
_WRAPPED = re.compile(r"(?:np\.|numpy\.)?(?:float\d*|int\d*|tensor|array)\(\[?([^,\])]*)")
_SPECIAL = {
    "nan": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    # Trainers log None where every value was NaN, orjson writes NaN as null.
    "none": math.nan,
    "null": math.nan,
}
_ROUNDED_ZERO = re.compile(r"\s*['\"]?[-+]?0\.0{2,}['\"]?\s*\Z")
LONGEST = 64


def number(value: object) -> float | None:
    """``value`` as a number, NaN for None and null; None where it is none (booleans, lists, other text)."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _parse(text: str) -> float | None:
    text = text.strip().strip("'\"")
    if len(text) > LONGEST or not text:
        return None
    if wrapped := _WRAPPED.match(text):
        text = wrapped.group(1).strip()
    if _NUMBER.match(text):
        return float(text)
    sign = -1.0 if text.startswith("-") else 1.0
    special = _SPECIAL.get(text.lstrip("+-").removeprefix(".").lower())
    return None if special is None else sign * special


def is_rounded_zero(value: object) -> bool:
    """Whether ``value`` is a 0 that a format with several decimals made of a small number (``0.000``; Python's own is
    ``0.0``)."""
    return isinstance(value, str) and _ROUNDED_ZERO.match(value) is not None


def flatten(record: Mapping[str, Any], depth: int = 6) -> dict[str, Any]:
    """A nested record under names joined by ``/``."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            if depth:
                flat.update({f"{key}/{inner}": v for inner, v in flatten(value, depth - 1).items()})
        else:
            flat[str(key)] = value
    return flat
