"""A log whose newest line stands first, as consoles export it: turned round."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

Read = Callable[[], bytes]

# What is larger stays as it is, and is never held.
_HELD = 8 << 20
_FEWEST = 4
_NEARLY_ALL = 0.95
# The first time of a line, wherever its record keeps it; a date of words has its numbers in the order of size all the
# same.
_TIME = re.compile(
    rb"^[^\n]{0,400}?(?P<time>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    rb"|[A-Z][a-z]{2} \d{1,2}, \d{4} @ \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    rb"|\"(?:timestamp|ts|tsNs|time|date)\": ?\"?\d{13,19}\b)"
)
_NUMBER = re.compile(rb"\d+")


def oldest_first(first: bytes, read: Read) -> tuple[bytes, Read]:
    """The beginning of a text and how more of it is read, with the lines turned round where nearly all have a time and
    the times run backwards."""
    lines = first.split(b"\n")
    if not _runs_backwards(lines[:-1] if len(lines) > 1 else lines):
        return first, read
    held = first
    while len(held) <= _HELD:
        more = read()
        if not more:
            return b"\n".join(reversed(held.rstrip(b"\r\n").split(b"\n"))) + b"\n", lambda: b""
        held += more
    return held, read


def _runs_backwards(lines: list[bytes]) -> bool:
    full = [line for line in lines if line.strip()]
    times = [tuple(map(int, _NUMBER.findall(match["time"]))) for line in full if (match := _TIME.match(line))]
    if len(times) < max(_FEWEST, _NEARLY_ALL * len(full)):
        return False
    steps = [(a, b) for a, b in pairwise(times) if a != b]
    return len(steps) >= _FEWEST - 1 and sum(1 for a, b in steps if a > b) >= _NEARLY_ALL * len(steps)
