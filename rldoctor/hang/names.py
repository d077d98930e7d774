"""Ranks and processes as people name them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rldoctor.hang.process_state import ProcessState

_NAMED = 6


def by_number(text: str) -> tuple[int, str]:
    """Sorts ranks that come as text by their numbers."""
    return (int(text), "") if text.isdecimal() else (1 << 30, text)


def ranks_named(ones: Iterable[ProcessState]) -> str:
    """``ranks 0-2, 5`` or the processes' own names."""
    everyone = list(ones)
    numbers = [int(s.seen.rank) for s in everyone if s.seen.role == "rank" and s.seen.rank and s.seen.rank.isdecimal()]
    if len(numbers) != len(everyone):
        named = [one.label for one in everyone]
        return ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    return numbered(numbers)


def numbered(numbers: Iterable[int], what: str = "rank") -> str:
    """``rank 7``, ``ranks 0-2, 5``."""
    found = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in found:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{what}{'s' if len(found) != 1 else ''} {said}"
