"""Reads what the soak scenario measured while traffic was kept up: growth that does not stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rldoctor.api import Case, Evidence, NotApplicable, NotChecked, Reach
from rldoctor.api.memory import GIB

from .rollout import Job, records

# The first part of a soak fills caches and allocator pools; what counts comes after it.
WARM_UP = 1 / 3
FEWEST = 5
# Less than this over a soak is noise of allocators and of Python's own heap.
LEAST_GROWTH = GIB // 4
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Growth:
    """Memory that rose in every window after the warm-up: bytes at first and at last, and the hours in between."""

    first: int
    last: int
    hours: float

    @property
    def per_hour(self) -> float:
        """GiB for each hour of this traffic."""
        return (self.last - self.first) / GIB / self.hours

    def evidence(self, what: str) -> Evidence:
        text = f"{what}: {self.first / GIB:.2f} GiB, {self.last / GIB:.2f} GiB {self.hours * 60:.0f} minutes later"
        return Evidence(text=text, source="soak")


def soaked(case: Case) -> tuple[Job, list[dict[str, Any]]]:
    """The soak and its windows. Raises :class:`NotChecked` where it was too short to tell anything."""
    job = case.observations["soak"].get("traffic", {})
    windows = list(records(job).get("windows", ()))
    if len(_settled(windows)) < FEWEST:
        raise NotChecked(f"the soak took {len(windows)} measures, too few to tell growth", "--soak with more minutes")
    return job, windows


def growth(windows: Sequence[dict[str, Any]], what: str) -> Growth | None:
    """How ``host`` or ``device`` memory grew, where it did so in every window and beyond noise.

    Raises :class:`NotApplicable` where it was not measured."""
    settled = [window for window in _settled(windows) if window.get(what) is not None]
    if not settled:
        raise NotApplicable(f"there is no {what} memory to watch")
    values = [int(window[what]) for window in settled]
    rising = all(later > earlier for earlier, later in pairwise(values))
    if not rising or values[-1] - values[0] < max(LEAST_GROWTH, LEAST_SHARE * values[0]):
        return None
    return Growth(values[0], values[-1], (settled[-1]["seconds"] - settled[0]["seconds"]) / 3600)


def reach(windows: Sequence[dict[str, Any]], what: str) -> Reach:
    """What a soak that shows nothing went through."""
    requests = sum(window["requests"] for window in windows)
    return Reach(f"{what} steady over {requests} requests in {windows[-1]['seconds'] / 60:.0f} minutes")


def _settled(windows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    return windows[int(len(windows) * WARM_UP) :]
