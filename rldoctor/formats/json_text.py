"""Reads JSON that stands inside a launch file, forgiving Python's spelling of it."""

from __future__ import annotations

import ast
import json
from typing import Any

MAX_CHARACTERS = 200_000


def parse(text: str) -> Any:
    """The value of a JSON (or Python literal) text. Raises ValueError where it is neither, or too large to be one."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{len(text)} characters are too many for a value")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{text[:80]!r} is not JSON") from None
