"""Reads what the soak scenario measured: what grows cycle by cycle, by how much, and how little would have shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rldoctor.api import Case, Evidence, NotChecked, Reach
from rldoctor.api.memory import GIB

from .rollout import Job, records

# The first part of a soak fills caches and allocator pools; what counts comes after it.
WARM_UP = 1 / 3
FEWEST = 5
# A slope counts where it is so many times its own uncertainty. A single step in eight measures comes to 4.4, two steps
# to 7; what never pauses comes to more than 20.
CERTAIN = 8.0
# What grows does so from most measures to the next, and about as much in the second half as in the first: pools fill up
# and stay.
MOST_RISE, LASTING = 0.7, 0.5
MIB = 1 << 20


@dataclass(frozen=True)
class Quantity:
    """Something that a soak measures: its ``name`` in a window, what it is called, in which ``unit`` (``scale`` of the
    measured ones each), the ``least`` growth over a soak that is worth a word, and whether it is less of it that is
    bad."""

    name: str
    what: str
    unit: str
    least: float
    scale: float = 1.0
    falls: bool = False


HOST = Quantity("host", "host memory", "MiB", 24 * MIB, scale=MIB)
DEVICE = Quantity("device", "device memory", "MiB", 24 * MIB, scale=MIB)
BLOCKS = Quantity("free_blocks", "free KV blocks", "blocks", 4, falls=True)
# What an engine's processes may leave open.
OPEN = (
    Quantity("sockets", "open sockets", "sockets", 4),
    Quantity("files", "open files", "files", 4),
    Quantity("threads", "threads", "threads", 4),
    Quantity("processes", "processes", "processes", 4),
    Quantity("shared", "files in /dev/shm", "files", 4),
)


@dataclass(frozen=True)
class Trend:
    """A quantity over the settled part of a soak, fitted by a line: ``per_cycle`` and its ``uncertainty`` (standard
    error), the ``noise`` around the line, in measured units; ``lasts`` says whether it rose most of the time and to the
    end."""

    quantity: Quantity
    values: tuple[float, ...]
    cycles: int
    hours: float
    per_cycle: float
    uncertainty: float
    noise: float
    lasts: bool

    @property
    def grows(self) -> bool:
        """Whether this is growth, and worth a word."""
        certain = self.per_cycle > CERTAIN * self.uncertainty
        return certain and self.lasts and abs(self.values[-1] - self.values[0]) >= self.quantity.least

    @property
    def smallest(self) -> float:
        """The growth for each cycle that would have shown, in measured units."""
        return max(CERTAIN * self.uncertainty, self.quantity.least / max(self.cycles, 1))

    def said(self, amount: float) -> str:
        """An amount in the quantity's unit."""
        return f"{amount / self.quantity.scale:.3g} {self.quantity.unit}"

    def evidence(self) -> Evidence:
        scaled = ", ".join(f"{value / self.quantity.scale:.6g}" for value in self.values)
        text = f"{self.quantity.what}: {scaled} {self.quantity.unit} in {self.cycles} cycles"
        return Evidence(text=f"{text}, noise {self.said(self.noise)}", source="soak")

    @property
    def rate(self) -> str:
        """What it comes to, for each cycle, for a thousand and for an hour."""
        hour = (self.values[-1] - self.values[0]) / self.hours if self.hours > 0 else 0.0
        each, thousand = self.said(self.per_cycle), 1000 * self.per_cycle
        if self.quantity.unit == "MiB":
            return f"{each} a cycle: {thousand / GIB:.2g} GiB in 1000 cycles, {abs(hour) / GIB:.2g} GiB an hour here"
        return f"{each} a cycle: {thousand:.3g} in 1000 cycles"


def soaked(case: Case) -> tuple[Job, list[dict[str, Any]]]:
    """The soak and its windows. Raises :class:`NotChecked` where it was too short to tell anything."""
    job = case.observations["soak"].get("traffic", {})
    windows = list(records(job).get("windows", ()))
    if len(_settled(windows)) < FEWEST:
        raise NotChecked(f"the soak took {len(windows)} measures, too few to tell growth", "--soak with more minutes")
    return job, windows


def trend(windows: Sequence[Mapping[str, Any]], quantity: Quantity) -> Trend | None:
    """How a quantity went, None where it was not measured."""
    settled = [window for window in _settled(windows) if window.get(quantity.name) is not None]
    if len(settled) < FEWEST:
        return None
    at = [float(window["cycles"]) for window in settled]
    values = tuple(float(window[quantity.name]) for window in settled)
    rising = [-value for value in values] if quantity.falls else list(values)
    slope, uncertainty, noise = _line(at, rising)
    half = len(rising) // 2
    first, second = rising[half] - rising[0], rising[-1] - rising[half]
    rises = sum(later > earlier for earlier, later in pairwise(rising)) / (len(rising) - 1)
    hours = (settled[-1]["seconds"] - settled[0]["seconds"]) / 3600
    lasts = rises >= MOST_RISE and second >= LASTING * first * (len(rising) - 1 - half) / half
    return Trend(quantity, values, int(at[-1] - at[0]), hours, slope, uncertainty, noise, lasts)


def _line(at: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """Least squares: the slope, its standard error, and the standard deviation around the line."""
    mean_at, mean = sum(at) / len(at), sum(values) / len(values)
    spread = sum((x - mean_at) ** 2 for x in at)
    if spread == 0.0:
        return 0.0, math.inf, 0.0
    slope = sum((x - mean_at) * (y - mean) for x, y in zip(at, values, strict=True)) / spread
    rest = sum((y - mean - slope * (x - mean_at)) ** 2 for x, y in zip(at, values, strict=True))
    noise = math.sqrt(rest / (len(at) - 2))
    return slope, noise / math.sqrt(spread), noise


def reach(windows: Sequence[Mapping[str, Any]], seen: Sequence[Trend]) -> Reach:
    """What a soak that shows nothing went through, and how little would have shown."""
    requests, last = sum(window["requests"] for window in windows), windows[-1]
    least: dict[str, list[str]] = {}
    for one in seen:
        said = one.said(one.smallest)
        # What is counted is named by what it is.
        least.setdefault(said if one.quantity.scale > 1 else said.partition(" ")[0], []).append(one.quantity.what)
    steady = ", ".join(f"{', '.join(names)} (from {amount} a cycle on)" for amount, names in least.items())
    went = f"{requests} requests in {last['cycles']} cycles, {last['seconds'] / 60:.1f} minutes"
    return Reach(f"no growth over {went} of {steady}")


def canary(window: Mapping[str, Any]) -> str:
    """What a window's greedy request was answered, with how many log-probabilities where not every token has one."""
    tokens, told = window["canary"]["token_ids"], window["canary"]["logprobs"]
    count = len(told) - told.count(None)
    return f"token ids {tokens}" + (f", {count} log-probabilities" if count < len(tokens) else "")


def turned(windows: Sequence[Mapping[str, Any]]) -> int | None:
    """The window, from 0, from which on the greedy request was answered otherwise than before; None where it was not,
    or was at times, as rounding may have it."""
    answers = [canary(window) for window in windows]
    turn = next((number for number, answer in enumerate(answers) if answer != answers[0]), len(answers))
    return turn if 0 < turn < len(answers) - 1 and answers[0] not in answers[turn:] else None


def _settled(windows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return windows[int(len(windows) * WARM_UP) :]
