"""Reads what the soak scenario measured: what grows cycle by cycle, by how much, and how little would have shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rldoctor.api import Case, Evidence, NotChecked, Reach, dataclass
from rldoctor.api.memory import GIB

from .agreement import Noise, difference, noise_of
from .rollout import NEVER, Job, log_probability, records, require
from .traces import faults

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
# What the names of requests begin with that are drawn anew each time.
DRAWN = "drawn"


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
    """The soak and its windows. Raises :class:`NotChecked` where it has none."""
    job = case.observations["soak"].get("traffic", {})
    windows = list(records(job).get("windows", ()))
    if not windows:
        raise NotChecked("the soak took no measures", "--soak with more minutes")
    return job, windows


def measured(case: Case) -> tuple[Job, list[dict[str, Any]]]:
    """The same. Raises :class:`NotChecked` where the soak was too short to tell growth."""
    job, windows = soaked(case)
    if len(_settled(windows)) < FEWEST:
        raise NotChecked(f"the soak took {len(windows)} measures, too few to tell growth", "--soak with more minutes")
    return job, windows


def served(windows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Up to where the engine answers no more: without the last windows, in all of which requests were left over."""
    left = next((n for n, window in enumerate(reversed(windows)) if not window["unfinished"]), len(windows))
    return windows[: len(windows) - left]


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
    # For each cycle: a busy machine plays fewer of them between two measures.
    lasts = rises >= MOST_RISE and second * (at[half] - at[0]) >= LASTING * first * (at[-1] - at[half])
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


@dataclass(frozen=True)
class Turn:
    """Requests that are the same every time, and are answered otherwise from some window on: how many ``requests`` came
    before, after which ``cycles`` they were answered as ever and otherwise, both answers by request, those of them
    whose answer was another one's before, and those that get none, or none to its end."""

    requests: int
    cycles: tuple[int, int]
    answers: Mapping[str, tuple[str, str]]
    others: tuple[str, ...]
    unanswered: tuple[str, ...]


def turned(job: Job, windows: Sequence[Mapping[str, Any]]) -> Turn | None:
    """None where nothing turned, or did so at times, as rounding may have it."""
    first, noise = _answers(require(job, "first")), _noise(job)
    played = [_answers(window["fixed"]) for window in windows]
    since = {name: _since([answers.get(name) for answers in played], ever, noise) for name, ever in first.items()}
    turns = {name: at for name, at in since.items() if at is not None}
    if not turns:
        return None
    at = min(turns.values())
    changed = {name: (first[name], played[at].get(name)) for name, turn in turns.items() if turn == at}
    return Turn(
        requests=sum(window["requests"] for window in windows[:at]),
        cycles=(windows[at - 1]["cycles"] if at else 0, windows[at]["cycles"]),
        answers={name: (str(ever), str(now or "no answer")) for name, (ever, now) in changed.items()},
        others=tuple(name for name, (_, now) in changed.items() if now and _of_another(name, now, first)),
        unanswered=tuple(name for name, (_, now) in changed.items() if now is None or now.end is None),
    )


def repeated(job: Job, windows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Requests without a seed that were answered the same in the last three windows, where chance makes that next to
    impossible."""
    require(job, "first")
    last = [window["fixed"]["answers"] for window in windows[-3:]]
    drawn = [name for name in last[-1] if name.startswith(DRAWN)]
    return [
        name
        for name in drawn
        if all(answers.get(name, {}).get("token_ids") == last[-1][name]["token_ids"] for answers in last)
        and (len(last) - 1) * (log_probability(last[-1][name]) or 0.0) < NEVER
    ]


def traffic_faults(job: Job, windows: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], list[str]] | None:
    """The first window whose fixed requests met what one caller must never see, with a line each."""
    require(job, "first")
    return next(((window, told) for window in windows if (told := list(faults(window["fixed"])))), None)


class _Answer(NamedTuple):
    """What must come again."""

    tokens: tuple[int, ...]
    logprobs: tuple[Any, ...]
    end: str | None
    text: str

    @property
    def told(self) -> int:
        return len(self.logprobs) - self.logprobs.count(None)

    def as_ever(self, ever: _Answer, noise: Noise | None) -> bool:
        if (self.tokens, self.told, self.end, self.text) != (ever.tokens, ever.told, ever.end, ever.text):
            return False
        numbers = [one for one in zip(self.logprobs, ever.logprobs, strict=True) if None not in one]
        return noise is None or not numbers or not difference(*zip(*numbers, strict=True)).beyond(noise)

    def __str__(self) -> str:
        short = f", {self.told} log-probabilities" if self.told < len(self.tokens) else ""
        whole = f" of {sum(self.logprobs):.6g} in all" if self.logprobs and not short else ""
        text = f", text {self.text[:40]!r}" if self.text else ""
        return f"token ids {list(self.tokens)}{whole}{short}, finish reason {self.end}{text}"


def _answers(trace: Mapping[str, Any]) -> dict[str, _Answer]:
    """Of the requests that are not drawn anew and run to their end."""
    return {
        name: _Answer(
            tuple(answer["token_ids"]), tuple(answer["logprobs"]), answer["finish_reason"], answer.get("text", "")
        )
        for name, answer in trace["answers"].items()
        if not name.startswith(DRAWN) and not answer["aborted"]
    }


def _noise(job: Job) -> Noise | None:
    """What rounding explains; None where there are no figures, and token ids alone tell."""
    try:
        return noise_of(job)
    except NotChecked:
        return None


def _since(answers: Sequence[_Answer | None], ever: _Answer, noise: Noise | None) -> int | None:
    """From which window on, to the end and in two at least, an answer is another one."""
    wrong = [answer is None or not answer.as_ever(ever, noise) for answer in answers]
    turn = len(wrong) - next((n for n, one in enumerate(reversed(wrong)) if not one), len(wrong))
    return turn if turn < len(wrong) - 1 and not any(wrong[:turn]) else None


def _of_another(name: str, now: _Answer, first: Mapping[str, _Answer]) -> bool:
    """Whether an answer, or what there is of it, was another request's before."""
    fits = [one for one, ever in first.items() if now.tokens and now.tokens == ever.tokens[: len(now.tokens)]]
    return bool(fits) and name not in fits


def _settled(windows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return windows[int(len(windows) * WARM_UP) :]
