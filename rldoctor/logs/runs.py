"""Where one run ends and the next begins in a file to which several were appended."""

from __future__ import annotations

import re

from rldoctor.logs.model import FailedFirst
from rldoctor.logs.record import MAIN_PROCESSES, FileRecord, RawDeath, RawException
from rldoctor.records import dataclass

# Two starts nearer than this are one: several nodes, or a launcher and what it launches.
_SAME_START = 200
# Fewer lines behind a start are what a stream of the run that ended still held.
_FEWEST_LINES = 3
# What launchers raise when a child failed: behind it nothing more of that run follows.
_LAUNCHERS = re.compile(r"(?:^|\.)(?:ChildFailedError|CalledProcessError|ProcessExitedException)$")


@dataclass(frozen=True)
class Slice:
    """The lines ``first`` to ``last`` of one file. ``sure`` says that a run certainly began there."""

    record: FileRecord
    first: int
    last: int
    sure: bool = True

    def __contains__(self, number: int) -> bool:
        """Whether a line of the file is one of these."""
        return self.first <= number <= self.last

    @property
    def exceptions(self) -> list[RawException]:
        return [e for e in self.record.exceptions if e.number in self]

    @property
    def deaths(self) -> list[RawDeath]:
        return [d for d in self.record.deaths if d.number in self]

    @property
    def summaries(self) -> list[FailedFirst]:
        return [reported for reported in self.record.summaries if reported.line in self]

    def is_shutting_down(self, number: int) -> bool:
        """Whether somebody had asked a server to end before this line."""
        asked = self.record.asked_to_end
        return asked is not None and self.first <= asked < number

    def joined(self, earlier: Slice) -> Slice:
        """This slice together with the one before it."""
        return Slice(self.record, earlier.first, self.last, earlier.sure)


@dataclass(frozen=True)
class _End:
    """Where something ended: the ``whole`` run (a launcher, the only process) or perhaps only a part of it."""

    number: int
    whole: bool
    launcher: bool


def slices(record: FileRecord) -> list[Slice]:
    """A file's runs, the last one last."""
    sure = {1: True} | dict(_after_starts(record, _ends(record))) | dict.fromkeys(_after_launchers(record), True)
    begins = sorted(sure)
    stops = [begin - 1 for begin in begins[1:]] + [max(record.lines, begins[-1])]
    return [Slice(record, first, last, sure[first]) for first, last in zip(begins, stops, strict=True)]


def _reported_by_all(record: FileRecord, rank: str | None) -> bool:
    """Whether a line speaks for the whole run: it has no rank, or there is but one."""
    return rank is None or record.ranks <= {"0"}


def _ends(record: FileRecord) -> list[_End]:
    found = [_End(d.number, True, True) for d in record.deaths if d.launcher]
    for raw in record.exceptions:
        frames = raw.exception.frames
        if raw.quoted or raw.origin.actor not in MAIN_PROCESSES or not frames:
            continue
        whole = _reported_by_all(record, raw.origin.rank)
        launcher = whole and _LAUNCHERS.search(raw.exception.type) is not None
        main = whole and frames[0].function == "<module>"
        found.append(_End(raw.last, launcher or main, launcher))
    return sorted(found, key=lambda end: end.number)


def _after_starts(record: FileRecord, ends: list[_End]) -> list[tuple[int, bool]]:
    """Starts with an end before them, or far below the last start, and whether that makes the beginning sure."""
    begins: list[tuple[int, bool]] = []
    current, last_start = 1, 0
    seen: dict[str, int] = {}
    for start in sorted(record.starts, key=lambda s: s.number):
        if not _reported_by_all(record, start.rank):
            continue
        before = [end for end in ends if current <= end.number < start.number]
        if start.early:
            again = seen.get(start.text, start.number)
            begun = any(end.whole or again < end.number for end in before) and not _launched_over(
                start.number, record, ends
            )
        else:
            begun = bool(before) or (last_start > 0 and start.number - last_start > _SAME_START)
            last_start = start.number
        if begun and record.lines - start.number >= _FEWEST_LINES:
            begins.append((start.number, not start.early or any(end.launcher for end in before)))
            current = start.number
            seen.clear()
        seen.setdefault(start.text, start.number)
    return begins


def _launched_over(number: int, record: FileRecord, ends: list[_End]) -> bool:
    """Whether a launcher reports a failure behind the line that it was started for before it: the run goes on over
    it."""
    over = next((end.number for end in ends if end.launcher and end.number > number), None)
    if over is None or any(end.launcher and end.number < number for end in ends):
        return False
    return not any(not start.early and number <= start.number < over for start in record.starts)


def is_launchers(raw: RawException, record: FileRecord) -> bool:
    """Whether an exception is a launcher's own word about its children: with it the run is over."""
    reported = raw.origin.actor is None and _reported_by_all(record, raw.origin.rank)
    return reported and not raw.quoted and _LAUNCHERS.search(raw.exception.type) is not None


def _after_launchers(record: FileRecord) -> list[int]:
    """A launcher's own exception after which steps are taken, or something fails anew."""
    found = []
    for raw in record.exceptions:
        if not is_launchers(raw, record):
            continue
        after = raw.aftermath.until(record.lines or raw.aftermath.upto)
        anew = any(e.number > raw.last and _fails_alone(e, record) for e in record.exceptions)
        if after.moved >= 1 or anew:
            found.append(raw.last + 1)
    return found


def _fails_alone(raw: RawException, record: FileRecord) -> bool:
    frames = raw.exception.frames
    main = bool(frames) and frames[0].function == "<module>" and raw.origin.actor in MAIN_PROCESSES
    return main and _reported_by_all(record, raw.origin.rank) and not is_launchers(raw, record)
