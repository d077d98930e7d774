"""A run's own pace: how often its log repeats itself, and whether it has been quiet for longer than that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rldoctor.hang.model import Hang
from rldoctor.logs.times import seconds
from rldoctor.records import dataclass

# A line that comes so often is a step's, a bar's or a request's. Of less than twice as many the mean tells little, and
# their times, within SHORTEST, are those of quick first steps.
REPEATED = 3
# A step may take longer than the others: an evaluation, a checkpoint, long completions. Of times that the lines carry
# the longest is known, of a mean it is not.
BEYOND_LONGEST, BEYOND_MEAN = 2.0, 4.0
# In seconds. Below the first nothing is called quiet; after the second it stands whatever its pace, for that is when
# the collectives of NCCL give up: https://docs.pytorch.org/docs/stable/distributed.html
SHORTEST, LONGEST = 10.0, 600.0
# Servers, engines and tools may write while nothing is trained.
_TRAINS = ("rank", "trainer", "ray driver", "ray worker", "launcher", "other")
_CLOCK = re.compile(r"(?:\d{2,4}[-/]?\d\d(?:[-/]?\d\d)?[T _])?\d\d:\d\d:\d\d(?:[.,]\d+)?")
_NUMBER = re.compile(r"(?:\d[\d.,]*(?:[eE][-+]?\d+)?|[^A-Za-z_])+")


@dataclass(frozen=True)
class Pace:
    """``quiet`` is for how many seconds no process that trains has written, or has been seen to move where none writes
    to a file; ``limit`` what its own pace allows. Both are None where nothing tells."""

    quiet: float | None = None
    limit: float | None = None

    @property
    def stands(self) -> bool:
        """Whether it has been quiet for longer than its steps take."""
        return self.quiet is not None and self.quiet > (LONGEST if self.limit is None else self.limit)

    @property
    def known(self) -> bool:
        """Whether anything tells how long its steps take, or it has been quiet for so long that it does not matter."""
        return self.stands or self.limit is not None

    @property
    def long_since(self) -> bool:
        """Whether it has stood for so long that no slow step explains it."""
        return self.quiet is not None and self.quiet > max(60.0, 3 * (self.limit or LONGEST))

    @property
    def overdue(self) -> bool:
        """Whether it has been quiet for so long, against a pace that is known, that a rank which moves may do so in a
        loop without end."""
        return self.limit is not None and self.long_since and self.quiet is not None and self.quiet > LONGEST


def pace(hang: Hang) -> Pace:
    """The pace of the run as the logs of its processes have it."""
    written = [seen.log for seen in hang.processes if seen.log is not None and seen.role in _TRAINS]
    # A child that was started late writes to the same file, and knows little or nothing of how long it took.
    logs = {log.file: log for log in sorted(written, key=lambda log: log.limit or 0.0)}
    timed = [log for log in logs.values() if log.limit is not None]
    if not timed:
        return Pace(quiet=min((log.quiet for log in logs.values()), default=hang.seconds))
    latest = min(timed, key=lambda log: log.quiet - (log.limit or 0.0))
    return Pace(min(log.quiet for log in logs.values()), latest.limit)


def limit(lines: Sequence[str], share: float, lasted: float | None) -> float | None:
    """For how many seconds a log may be quiet while its run goes on; None where its end does not tell. ``lines`` are
    its last, ``share`` of the whole, which was written in ``lasted`` seconds (None where that is not known)."""
    shapes = Counter(_NUMBER.sub(" ", _CLOCK.sub("", line)).strip() for line in lines)
    shape, count = max(((s, n) for s, n in shapes.items() if s), key=lambda one: one[1], default=("", 0))
    if count < REPEATED:
        return None
    times = list(_times(line for line in lines if _NUMBER.sub(" ", _CLOCK.sub("", line)).strip() == shape))
    if len(times) > REPEATED:
        if count < 2 * REPEATED and times[-1] - times[0] < SHORTEST:
            return None
        return max(SHORTEST, BEYOND_LONGEST * max(late - early for early, late in pairwise(times)))
    if lasted is None or not 0 < share <= 1 or count < 2 * REPEATED:
        return None
    return max(SHORTEST, BEYOND_MEAN * lasted * share / count)


def _times(lines: Iterable[str]) -> list[float]:
    """The times of lines that carry one, in order: ranks write past each other."""
    found = (seconds(match[0]) for line in lines if (match := _CLOCK.search(line[:80])) is not None)
    return sorted(one for one in found if one is not None)
