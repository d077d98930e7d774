"""Finds the metrics in the lines of logs, whichever framework wrote them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import field

from rldoctor.case import Series
from rldoctor.frameworks import logged
from rldoctor.frameworks.metrics import Taken
from rldoctor.frameworks.samples import MOST_ROWS, Sample
from rldoctor.logs.metrics import blocks, console, samples
from rldoctor.logs.metrics.track import Block, Track, merge
from rldoctor.records import dataclass

# For readers that jump through a log by a search for literals: every line that holds or opens a record contains one of
# these. After a line that was fed, they go on feeding while :meth:`Collector.follows` says so. What only numbers the
# steps (progress bars) is not among them.
LITERALS = (
    "'epoch': ",
    '"epoch": ',
    "'iteration': ",
    '{"step": ',
    '"train/global_step"',
    " - Step ",
    ") Step ",
    *(literal for held in logged().values() for literal in held.literals),
)
# The same for lines without their prefixes, and with the bars.
_MARK = re.compile(
    "|".join(
        (
            r"""'epoch'|"epoch"|"step"|"train/global_step"|'iteration'|%\|""",
            *dict.fromkeys(held.marks for held in logged().values() if held.marks),
        )
    )
)

# Ray's "(TaskRunner pid=123)", torchrun's "[rank0]:" and "[default0]:", coloured or not.
_PREFIX = re.compile(
    r"(?:\x1b\[[0-9;]*m)*(?:\([^()]{0,80}\bpid=\d+[^()]{0,80}\)|\[(?:rank|default)?\d+\]:?)(?:\x1b\[[0-9;]*m)* ?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# transformers' own bar has no description; "Loading weights: 100%|" and others count something else.
_BAR = re.compile(r"\s*\d+%\|[^|]{0,300}\|\s*(\d+)/(\d+) \[")
# Blocks that can be open at a time, and sources that are kept; a folder of rank files has one source for each rank.
MOST_OPEN = 64
MOST_SOURCES = 4096


@dataclass
class Collector:
    """Takes lines in their order and keeps what they say about training steps, in bounded memory. ``last`` is the
    number of the last line that held a step, 0 where none did."""

    last: int = 0
    _tracks: dict[str, Track] = field(default_factory=dict)
    _samples: dict[str, Track] = field(default_factory=dict)
    _open: dict[tuple[str, str], tuple[Block, int]] = field(default_factory=dict)
    _dump: tuple[str, int | None, list[Sample]] | None = None

    def feed(self, source: str, number: int, text: str) -> None:
        """One line, with or without its rank prefix, its colours and the carriage returns of progress bars."""
        if not self._open and not _MARK.search(text):
            return
        for part in text.split("\r") if "\r" in text else (text,):
            if part:
                self._feed(source, number, part)

    def follows(self, source: str) -> bool:
        """Whether the next lines of the source belong to a record that is open."""
        return any(
            key[0] == source and not getattr(block, "scattered", False) for key, (block, _) in self._open.items()
        )

    def series(self) -> dict[str, Series]:
        """What was found so far."""
        for key in list(self._open):
            self._close(key)
        self._flush_dump()
        return merge(track.series() for track in (*self._tracks.values(), *self._samples.values()))

    def _feed(self, source: str, number: int, text: str) -> None:
        prefix = _PREFIX.match(text)
        writer = _COLOUR.sub("", prefix.group()).strip() if prefix else ""
        body = _COLOUR.sub("", text[prefix.end() :] if prefix else text)
        key = (source, writer)
        if key in self._open and self._continue(key, body):
            return
        if not _MARK.search(body):
            return
        if bar := _BAR.match(body):
            track = self._track(source)
            track.position, track.total = int(bar.group(1)), int(bar.group(2))
        if block := samples.opened(body) or blocks.opened(body):
            self._begin(key, block, number)
        elif (reading := console.read(body)) is not None:
            self._track(source).add(reading, number)
            self.last = number
        elif body.startswith('{"') and len(body) <= console.LONGEST:
            self._read_samples(source, number, body)

    def _continue(self, key: tuple[str, str], body: str) -> bool:
        """Hands the line to the open block; false where the line is not the block's."""
        taken = self._open[key][0].feed(body)
        if taken in (Taken.LAST, Taken.ENDED):
            self._close(key)
        return taken in (Taken.YES, Taken.LAST)

    def _begin(self, key: tuple[str, str], block: Block, number: int) -> None:
        if key in self._open:
            self._close(key)
        if len(self._open) >= MOST_OPEN:
            self._close(next(iter(self._open)))
        self._open[key] = (block, number)

    def _close(self, key: tuple[str, str]) -> None:
        block, number = self._open.pop(key)
        if (reading := block.reading()) is not None:
            self.last = max(self.last, number)
            is_table = isinstance(block, samples.OpenTable)
            self._track(key[0], self._samples if is_table else self._tracks).add(reading, number)

    def _track(self, source: str, tracks: dict[str, Track] | None = None) -> Track:
        kept = self._tracks if tracks is None else tracks
        if source not in kept:
            if len(kept) >= MOST_SOURCES:
                return Track(source)
            kept[source] = Track(source)
        return kept[source]

    def _read_samples(self, source: str, number: int, body: str) -> None:
        try:
            record = json.loads(body)
        except (ValueError, RecursionError):
            return
        found = samples.from_record(record) if isinstance(record, dict) else None
        if found is None:
            return
        rows, step = found
        if self._dump is None or self._dump[:2] != (source, step):
            self._flush_dump()
            self._dump = (source, step, [])
        if len(self._dump[2]) < MOST_ROWS:
            self._dump[2].extend(rows)

    def _flush_dump(self) -> None:
        if self._dump is None:
            return
        source, step, rows = self._dump
        self._dump = None
        if (reading := samples.count(rows, step)) is not None:
            self._track(source, self._samples).add(reading)


def collect(lines: Iterable[tuple[str, int, str]]) -> dict[str, Series]:
    """The metrics in lines of (source, line number, text), by canonical name."""
    collector = Collector()
    for source, number, text in lines:
        collector.feed(source, number, text)
    return collector.series()
