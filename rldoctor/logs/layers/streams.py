"""A program's output that another one's logger repeats line by line: Airflow, a Python launcher, loguru."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rldoctor.logs.layers.layer import Strip

# So many of the lines have the prefix, all with one level: what a program logs of itself has several, and its
# tracebacks follow a record without a prefix of their own.
_ALL = 0.9
_FEWEST = 4
_RECORD = re.compile(
    rb"(?P<process>\((?:[^()\n]{1,80} )?pid=\d{1,9}[^()\n]{0,80}\) )?"
    rb"\[?\d{4}-\d\d-\d\d[T ,]{1,3}\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:UTC|Z|[+-]\d\d:?\d\d))?\]?"
    rb"(?: \{(?P<relay>subprocess|bash|pod_manager|docker|ssh|logging_mixin)\.py:\d{1,5}\})?"
    rb"[^\n\"']{0,80}?\b(?P<level>INFO|DEBUG|ERROR|WARNING)\b"
    rb"(?: \| (?P<stream>stdout|stderr)(?= \|))?[\] \t]{0,8}(?:- |: ?|\| ?|\] ?)(?P<text>.*)"
)
_FRAME = re.compile(rb"  File \"[^\"\n]{1,400}\", line \d")


def logged(lines: Sequence[bytes]) -> Strip | None:
    """The prefix of a logger before every line of a traceback, always with the same level."""
    full = [line for line in lines if line.strip()]
    records = [match for line in full if (match := _RECORD.match(line)) is not None]
    if len(records) < max(_FEWEST, _ALL * len(full)):
        return None
    # Of a stream, or of a task of Airflow's, everything has one level, whatever it says.
    if all(match["stream"] or match["relay"] for match in records):
        return _bare
    if len({match["level"] for match in records}) > 1 or not any(_FRAME.search(match["text"]) for match in records):
        return None
    return _bare


def _bare(text: bytes) -> bytes:
    return b"\n".join(
        (match["process"] or b"") + match["text"] if (match := _RECORD.match(line)) is not None else line
        for line in text.split(b"\n")
    )
