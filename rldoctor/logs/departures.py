"""Processes that ended without a word: a launcher recorded how, and they wrote nothing that says why."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

from rldoctor.logs.deaths import SIGNALS
from rldoctor.logs.fatality import Failure, Verdicts
from rldoctor.logs.model import Departure
from rldoctor.logs.record import RawDeath
from rldoctor.logs.runs import Slice

_SCHEDULERS = re.compile(r"srun: error: ")
# Exceptions in which a parent tells of its child.
PARENTS = re.compile(r"(?:^|\.)(?:ChildFailedError|CalledProcessError|ProcessExitedException)$")
# torch.multiprocessing.spawn: `ProcessRaisedException` where the child left a traceback, this one where it did not.
_SPAWNED = re.compile(r"process (?P<rank>\d{1,6}) terminated with (?:exit code (?P<code>\d{1,3})|signal (?P<name>\w+))")
# What no Python exception ends with: these signals, and an exit code other than that of an exception or an abort.
_NATIVE = frozenset(
    code
    for number in (signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV)
    for code in (-number, 128 + number)  # a shell's or a container's way to say it
)
_OF_AN_EXCEPTION = frozenset({1, -signal.SIGABRT, 128 + signal.SIGABRT})
# Somebody else asked it to end: the launcher, the scheduler, a person.
_ASKED = frozenset({0, -signal.SIGTERM, 128 + signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGINT})


def departures(verdicts: Verdicts) -> tuple[Departure, ...]:
    """Those of one run, the first one first. A failure of unknown rank may be the word of whoever ended so."""
    speakers = [f for f in verdicts.failures if not f.launcher and not PARENTS.search(f.exception.type)]
    ranks = {f.rank for f in speakers}
    first = min((f.number for f in speakers), default=None)
    return tuple(one for one in _recorded(verdicts) if _silent(one, ranks) and not _followed(one, verdicts, first))


def _followed(one: Departure, verdicts: Verdicts, first: int | None) -> bool:
    """Whether a scheduler only says that a task ended as its program failed: a task may be the launcher of many ranks,
    and behind what a rank has said its exit code is no news."""
    by_scheduler = any(f.number == one.line and _SCHEDULERS.match(f.exception.message) for f in verdicts.failures)
    return by_scheduler and one.code in _OF_AN_EXCEPTION and first is not None and first < one.line


def _silent(one: Departure, speakers: set[str | None]) -> bool:
    if one.code in _ASKED or one.rank in speakers - {None}:
        return False
    return one.code in _NATIVE or (one.rank is not None and (one.code not in _OF_AN_EXCEPTION or None not in speakers))


def _recorded(verdicts: Verdicts) -> list[Departure]:
    """What launchers say. torchelastic's summary knows the rank of the whole run, the line before it the local one."""
    pieces: dict[int, Slice] = {id(f.slice.record): f.slice for f in verdicts.failures}
    summed = [one for piece in pieces.values() for one in _summed(piece)]
    if summed:
        return summed
    return [one for failure in verdicts.failures for one in (_spawned(failure), _reported(failure)) if one is not None][
        :1
    ]


def _summed(piece: Slice) -> Iterator[Departure]:
    for reported in piece.summaries:
        if reported.rank is not None and reported.code is not None:
            yield Departure(rank=reported.rank, code=reported.code, source=reported.source, line=reported.line)


def _reported(failure: Failure) -> Departure | None:
    if not isinstance(failure.raw, RawDeath) or not failure.launcher:
        return None
    ended_by = SIGNALS.get(failure.exception.type)
    code = -int(ended_by) if ended_by is not None else failure.raw.code
    if code is None:
        return None
    reported = failure.exception
    return Departure(rank=reported.origin.rank, code=code, source=reported.source, line=failure.number)


def _spawned(failure: Failure) -> Departure | None:
    reported = failure.exception
    match = _SPAWNED.search(reported.message) if reported.type.endswith("ProcessExitedException") else None
    if match is None:
        return None
    code = int(match["code"]) if match["code"] else -int(getattr(signal, match["name"], signal.SIGKILL))
    return Departure(rank=match["rank"], code=code, source=reported.source, line=reported.line or failure.number)
