"""Logged completions: how many groups of one prompt there are, and in how many all completions are the same."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from rldoctor.frameworks import logged
from rldoctor.frameworks.metrics import Taken
from rldoctor.frameworks.samples import Sample, Table
from rldoctor.logs.metrics.track import Reading

# A shorter completion may be a plain answer that a sure policy gives every time.
SHORTEST = 8


def count(samples: Iterable[Sample], step: int | None) -> Reading | None:
    """``sampled_groups`` and ``sampled_groups_identical`` at a step; completions of one prompt that follow each other
    are a group. Groups of one, short completions and those that were cut off in the log are left out."""
    groups = identical = 0
    for _, members in groupby(samples, key=lambda sample: sample.prompt):
        group = list(members)
        texts = {sample.completion for sample in group}
        if len(group) < 2 or (len(texts) == 1 and not _telling(group[0])):
            continue
        groups += 1
        identical += len(texts) == 1
    if not groups:
        return None
    return Reading(
        {
            "sampled_groups": ("logged groups", float(groups)),
            "sampled_groups_identical": ("groups of equal completions", float(identical)),
        },
        step=step,
    )


def _telling(sample: Sample) -> bool:
    return sample.whole and len(sample.completion.strip()) >= SHORTEST


class OpenTable:
    """A framework's table that is being read."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def feed(self, text: str) -> Taken:
        """Takes the next line of the same process."""
        return self._table.feed(text)

    def reading(self) -> Reading | None:
        """What the table holds so far, None where no group of it tells anything."""
        return count(self._table.samples, self._table.step)


def opened(text: str) -> OpenTable | None:
    """The table that ``text`` opens, or None."""
    for held in logged().values():
        for kind in held.tables:
            if match := kind.OPENING.search(text):
                return OpenTable(kind(int(match.group(1))))
    return None


def from_record(record: dict[str, Any]) -> tuple[list[Sample], int | None] | None:
    """The completions in one record of a JSON-lines file, and its step. None where there are none."""
    for held in logged().values():
        for read in held.samples:
            if (found := read(record)) is not None:
                return found, _step(record)
    return None


def _step(record: dict[str, Any]) -> int | None:
    step = record.get("step")
    if isinstance(step, list):
        step = step[0] if step else None
    return int(step) if isinstance(step, int | str) and str(step).isdecimal() else None
