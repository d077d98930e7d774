"""The steps of one run as they were logged, in order, with restarts, repeats and unnumbered records resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Protocol

from rldoctor.case import Series
from rldoctor.frameworks.metrics import Taken
from rldoctor.records import dataclass

# Beyond this many steps every second one is dropped: no check needs more, and memory stays bounded.
MOST_STEPS = 20_000


@dataclass(frozen=True)
class Reading:
    """One record of a log. ``values`` maps canonical names to native name and value; ``step`` and ``epoch`` are None
    where the record has none."""

    values: Mapping[str, tuple[str, float]]
    step: int | None = None
    epoch: float | None = None


class Block(Protocol):
    """A record over several lines that is being read."""

    def feed(self, text: str) -> Taken:
        """Takes the next line of the same process."""
        ...

    def reading(self) -> Reading | None:
        """What the block holds so far, None where that is nothing."""
        ...


@dataclass
class _Step:
    number: int
    line: int
    epoch: float | None
    values: dict[str, float]


@dataclass
class Track:
    """Collects readings of one source. A record without a step gets the number of the progress bar before it
    (``position`` of ``total``), or the next number."""

    source: str | None = None
    steps: list[_Step] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    position: int = 0
    total: int = 0
    _counted: bool = False
    _latest: int = 0
    _stride: int = 1
    _skipped: int = 0

    def add(self, reading: Reading, line: int = 0) -> None:
        """Appends a record. One that goes back in step or epoch is a restart: what it repeats is forgotten."""
        values = {name: value for name, (_, value) in reading.values.items()}
        last = self.steps[-1] if self.steps else None
        number = reading.step
        if number is None:
            if last is not None and last.epoch == reading.epoch and _same(last.values, values):
                return  # another rank printed the same record
            self._rewind_epoch(reading.epoch)
            number = self.position if self.position > self._latest else self._latest + 1
            self._counted = True
        elif number == self._latest and (last is None or last.number != number):
            return  # this step is one of those that were dropped
        elif last is not None and last.number == number and not last.values.keys() & values.keys():
            last.values.update(values)
            self._name(reading.values)
            return
        else:
            while self.steps and self.steps[-1].number >= number:
                self.steps.pop()
        self._latest = number
        self._name(reading.values)
        self._append(_Step(number, line, reading.epoch, values))

    def series(self) -> dict[str, Series]:
        """One series for each metric."""
        self._renumber()
        found: dict[str, Series] = {}
        for name, key in self.keys.items():
            rows = [step for step in self.steps if name in step.values]
            if rows:
                found[name] = Series(
                    key=key,
                    steps=tuple(row.number for row in rows),
                    values=tuple(row.values[name] for row in rows),
                    source=self.source,
                    lines=tuple(row.line for row in rows) if any(row.line for row in rows) else (),
                )
        return found

    def _name(self, values: Mapping[str, tuple[str, float]]) -> None:
        for canonical, (native, _) in values.items():
            self.keys.setdefault(canonical, native)

    def _rewind_epoch(self, epoch: float | None) -> None:
        last = self.steps[-1].epoch if self.steps else None
        if epoch is None or last is None or epoch >= last:
            return
        while self.steps and (self.steps[-1].epoch or 0.0) >= epoch:
            self.steps.pop()
        self._latest = self.steps[-1].number if self.steps else 0

    def _append(self, step: _Step) -> None:
        if self._skipped < self._stride - 1:
            self._skipped += 1
            return
        self._skipped = 0
        self.steps.append(step)
        if len(self.steps) >= MOST_STEPS:
            del self.steps[1::2]
            self._stride *= 2

    def _renumber(self) -> None:
        # A bar that was written before all records (standard error and output in one file) has numbered them wrongly.
        if self._counted and self.total and self.steps and self.steps[-1].number > self.total:
            every = max(1, self.total // len(self.steps))
            for index, step in enumerate(self.steps):
                step.number = (index + 1) * every


def _same(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        value == other[name] or (value != value and other[name] != other[name]) for name, value in one.items()
    )


def merge(parts: Iterable[Mapping[str, Series]]) -> dict[str, Series]:
    """One series for each metric: of several the longest, of equally long ones the first. What is kept in one file for
    each step (completions) is joined."""
    merged: dict[str, Series] = {}
    for part in parts:
        for name, series in part.items():
            present = merged.get(name)
            if present is not None and name.startswith("sampled_groups"):
                merged[name] = _joined(present, series)
            elif present is None or len(series.values) > len(present.values):
                merged[name] = series
    return merged


def _joined(one: Series, other: Series) -> Series:
    values = {**dict(zip(other.steps, other.values, strict=True)), **dict(zip(one.steps, one.values, strict=True))}
    steps = tuple(sorted(values))
    lines = {**dict(zip(other.steps, other.lines, strict=False)), **dict(zip(one.steps, one.lines, strict=False))}
    return Series(
        key=one.key,
        steps=steps,
        values=tuple(values[step] for step in steps),
        source=one.source,
        lines=tuple(lines.get(step, 0) for step in steps) if lines else (),
    )
