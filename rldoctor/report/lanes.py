"""The failures of an incident as lanes: one for each process, the same failure of many in one; places in percent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rldoctor.model import Incident, ProcessFailure
from rldoctor.records import dataclass

# What one page can show; of more the number is said.
MOST = 24
_FIRST, _LAST = 3.0, 97.0
_RANK = re.compile(r"rank (\d+)\Z")


@dataclass(frozen=True)
class Lane:
    """Who failed (``name``), when (``value``, empty where the log has no times), and with what. ``first`` are the
    places of the processes' first failures, ``later`` those of further ones, and ``then`` what these said."""

    name: str
    value: str
    said: str
    first: tuple[float, ...]
    later: tuple[float, ...] = ()
    then: tuple[str, ...] = ()
    cause: bool = False


@dataclass(frozen=True)
class Timeline:
    """The lanes in order of time, the cause first; ``timed`` says whether places are times or only an order."""

    lanes: tuple[Lane, ...]
    timed: bool
    unharmed: str = ""
    left_out: int = 0


_Placed = tuple[float, ProcessFailure]


def timeline(incident: Incident) -> Timeline | None:
    """The lanes of an incident; None where fewer than two processes appear, for then there is nothing to see."""
    failures = incident.failures
    if not failures or len({one.process for one in failures}) + len(incident.unharmed) < 2:
        return None
    timed = all(one.after is not None for one in failures) and len({one.after for one in failures}) > 1
    by_process: dict[str, list[_Placed]] = {}
    for place, one in zip(_places(failures, timed), failures, strict=True):
        by_process.setdefault(one.process, []).append((place, one))
    alike: dict[tuple[bool, str], list[list[_Placed]]] = {}
    for member in by_process.values():
        member.sort(key=lambda placed: not placed[1].cause)
        alike.setdefault((member[0][1].cause, _form(member[0][1])), []).append(member)
    lanes = sorted((_lane(members, timed) for members in alike.values()), key=lambda lane: (not lane.cause, lane.first))
    return Timeline(
        lanes=tuple(lanes[:MOST]),
        timed=timed,
        unharmed=_ranks(incident.unharmed),
        left_out=max(0, len(lanes) - MOST),
    )


def _places(failures: Sequence[ProcessFailure], timed: bool) -> list[float]:
    moments = [one.after or 0.0 for one in failures] if timed else [float(at) for at, _ in enumerate(failures)]
    low, whole = min(moments), max(moments) - min(moments)
    return [round(_FIRST + (_LAST - _FIRST) * (one - low) / (whole or 1.0), 2) for one in moments]


def _form(failure: ProcessFailure) -> str:
    return re.sub(r"\d+", "0", failure.exception)


def _lane(members: Sequence[list[_Placed]], timed: bool) -> Lane:
    """One lane of the processes whose first failures say the same."""
    first = members[0][0][1]
    later = [placed for member in members for placed in member[1:]]
    return Lane(
        name=_named(member[0][1].process for member in members),
        value="first" if first.cause else _between([member[0][1].after or 0.0 for member in members]) if timed else "",
        said=first.exception,
        first=_marks(member[0][0] for member in members),
        later=_marks(place for place, _ in later),
        then=tuple({_form(one): one.exception for _, one in later}.values()),
        cause=first.cause,
    )


def _marks(places: Iterable[float]) -> tuple[float, ...]:
    return tuple(sorted(set(places)))


def _between(moments: Sequence[float]) -> str:
    begin, end = clock(min(moments)), clock(max(moments))
    return begin if begin == end else f"{begin} to {end}"


def clock(seconds: float) -> str:
    """A moment as it lies behind the first failure: ``+2.6 s``, ``+30 min``."""
    size = abs(seconds)
    shown = f"{size:.1f} s" if size < 120 else f"{size / 60:.0f} min" if size < 7200 else f"{size / 3600:.1f} h"
    return ("-" if seconds < 0 else "+") + shown


def _named(processes: Iterable[str]) -> str:
    """The processes of a lane, ranks as ranges."""
    names = list(processes)
    ranks = [match[1] for name in names if (match := _RANK.match(name)) is not None]
    others = [name for name in names if _RANK.match(name) is None]
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return ", ".join([*([_ranks(ranks)] if ranks else []), *others[:3]]) + more


def _ranks(ranks: Iterable[str]) -> str:
    """``rank 3``, ``62 ranks: 0-2, 4-62``; empty where there are none."""
    numbers = sorted({int(rank) for rank in ranks if rank.isdecimal()})
    if not numbers:
        return ""
    begins = [numbers[0], *(b for a, b in pairwise(numbers) if b != a + 1)]
    ends = [*(a for a, b in pairwise(numbers) if b != a + 1), numbers[-1]]
    said = [str(a) if a == b else f"{a}-{b}" for a, b in zip(begins, ends, strict=True)]
    listed = ", ".join(said[:6]) + (", ..." if len(said) > 6 else "")
    return f"rank {listed}" if len(numbers) == 1 else f"{len(numbers)} ranks: {listed}"
