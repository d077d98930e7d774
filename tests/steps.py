"""Counts the work of a call in lines of Python that it runs: the same on every machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(call: Callable[[], object]) -> int:
    """How many lines ran."""
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times the work grows when its size doubles, at the worse of two doublings."""
    one, two, four = (steps(lambda size=size: work(size)) for size in (size, 2 * size, 4 * size))  # type: ignore[misc]
    return max(two / one, four / two)
