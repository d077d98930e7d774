"""All that failed in a run, in words: what each exception says, what followed from the first one, who failed when."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rldoctor.logs.deaths import EXIT_CODE
from rldoctor.logs.fatality import Failure
from rldoctor.logs.model import LoggedException
from rldoctor.logs.record import RawException
from rldoctor.logs.runs import Slice, is_launchers
from rldoctor.logs.standing import CARRIER
from rldoctor.model import ProcessFailure

_MOST_CASCADES = 12
# What a report keeps: the first failures of one process, and so many in all.
_MOST_OF_ONE = 3
_MOST = 256
# Clocks that lie farther apart are no times of one run: a date is missing, or told in another form.
_LONGEST = 31 * 86_400.0
_TITLE = re.compile(r"\d validation errors? for |^Error\(s\) |NCCL error in|unhandled system error")
_WORKER_CARRIER = re.compile(r"Caught \w+ in (?:DataLoader worker|replica|pin memory)")
_LAUNCHER = "the launcher"


def telling(exception: LoggedException) -> LoggedException:
    """The link of a chain that says what happened: the last one, or what it carries over from another process."""
    links = list(reversed(exception.chain))
    said = (x for x in links if not CARRIER.search(x.type) and not _WORKER_CARRIER.match(x.message))
    return next((x for x in said if x.message or x.frames), links[0])


def short(link: LoggedException) -> str:
    said = [line.strip() for line in link.message.split("\n") if line.strip(" =-*")]
    # The first line of a validation error is a title; behind others a script may have written.
    titled = bool(said) and (said[0].endswith(":") or _TITLE.search(said[0]) is not None)
    first = " ".join(said[: 2 if titled else 1])
    # A launcher's line about an exit code says that it is one.
    return (first if first and link.type == EXIT_CODE else f"{link.type}: {first}".removesuffix(": "))[:600]


def cascades(failures: Iterable[Failure], shown: Failure) -> tuple[str, ...]:
    """What else failed, each once, with where."""
    groups: dict[str, list[str]] = {}
    for failure in failures:
        if failure is not shown:
            said = re.sub(r"\d+", "0", short(telling(failure.exception)))
            if said not in groups:
                groups[said] = [short(telling(failure.exception))[:300]]
            groups[said].append(failure.exception.origin.label)
    lines = []
    for said, *where in groups.values():
        labels = list(dict.fromkeys(where))
        lines.append(f"{said} ({', '.join(labels[:4])}{f' and {len(labels) - 4} more' if len(labels) > 4 else ''})")
    return tuple(lines[:_MOST_CASCADES])


def by_process(failures: Sequence[Failure], shown: Failure, first_rank: str | None) -> tuple[ProcessFailure, ...]:
    """Who failed when, in the order of the log; ``shown`` is the first failure, and ``first_rank`` whose it was."""
    kept: Counter[str] = Counter()
    found = []
    for failure in failures:
        cause = failure is shown
        process = _named(first_rank) if cause and first_rank is not None else _process(failure)
        kept[process] += 1
        if kept[process] <= _MOST_OF_ONE or cause:
            found.append(
                ProcessFailure(
                    process=process,
                    exception=short(telling(failure.exception))[:300],
                    after=_after(failure.exception.time, shown.exception.time),
                    source=failure.exception.source,
                    line=failure.number,
                    cause=cause,
                )
            )
    return tuple(found[:_MOST])


def unharmed(slices: Iterable[Slice], failed: Iterable[ProcessFailure]) -> tuple[str, ...]:
    """The ranks that wrote to the logs and that report no failure."""
    ranks = {rank for piece in slices for rank in piece.record.ranks}
    hurt = {one.process for one in failed}
    return tuple(sorted((rank for rank in ranks if _named(rank) not in hurt), key=lambda rank: (len(rank), rank)))


def _process(failure: Failure) -> str:
    if isinstance(failure.raw, RawException) and is_launchers(failure.raw, failure.slice.record):
        return _LAUNCHER
    return _named(failure.rank) if failure.rank is not None else failure.exception.origin.label


def _named(rank: str) -> str:
    return f"rank {rank}" if rank.isdigit() else rank


def _after(time: float | None, began: float | None) -> float | None:
    if time is None or began is None or abs(time - began) > _LONGEST:
        return None
    return round(time - began, 3)
