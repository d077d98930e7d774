"""The log of a run that goes on: read once as it grows, and judged as ``triage`` judges a log that has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rldoctor.case import Case, Series
from rldoctor.catalogue.check import Check
from rldoctor.errors import InputError
from rldoctor.logs.encodings import detect
from rldoctor.logs.layers import learned
from rldoctor.logs.metrics import Collector, merge
from rldoctor.logs.metrics.wandb import Run
from rldoctor.logs.paths import origin_of
from rldoctor.logs.reading import Reader
from rldoctor.logs.sources import Block, Source, decoder
from rldoctor.logs.table import Table
from rldoctor.logs.triage import judged_record
from rldoctor.model import Report
from rldoctor.records import dataclass
from rldoctor.watch.follow import Follower

# How much of a file's beginning shows how its lines are wrapped.
_SAMPLE = 1 << 16
# Judging takes this share of one core at most, so that a watched run pays one hundredth with reading, drawing and
# asking the devices: a judgement that takes a tenth of a second of the processor comes every 33 seconds.
SHARE = 0.003
# The first judgement also loads what judging needs, once; it delays the next one by so many seconds at most.
_FIRST = 10.0


@dataclass(frozen=True)
class Seen:
    """What a look at the log came to: ``new`` says whether lines came, ``report`` what they come to where it was worth
    a judgement."""

    new: bool
    report: Report | None = None
    metrics: dict[str, Series] | None = None


class LiveLog:
    """One log, with the ``history`` that a tracker keeps of the same run. ``clock`` counts seconds, ``spent`` those of
    the processor: a busy machine does not make judging dearer."""

    def __init__(
        self,
        path: Path,
        checks: Sequence[Check],
        case: Case | None = None,
        clock: Callable[[], float] = time.monotonic,
        history: Run | None = None,
        spent: Callable[[], float] = time.process_time,
    ) -> None:
        """Raises :class:`rldoctor.errors.InputError` for a path that cannot be followed."""
        self.path = path
        self.checks = list(checks)
        self.table = Table(self.checks)
        self.case = case or Case()
        self.clock = clock
        self.spent = spent
        self.history = history
        self.follower = Follower(path)
        self.files = 1
        self._unjudged = False
        self._free = clock()
        self._most_to_wait = _FIRST
        # The metrics of all files that the log went through.
        self._collector = Collector()
        self._begin()

    def look(self, last: bool = False) -> Seen:
        """Reads what came. It is judged where the last judgement was long enough ago, and always where it is the
        ``last`` look."""
        pieces = self.follower.rest() if last else self.follower.poll()
        for piece in pieces:
            if piece.anew:
                self.files += 1
                self._begin()
            self._feed(piece.data)
        free = last or self.clock() >= self._free
        # A history that grew is read where it can be judged.
        came = bool(pieces) or (free and self._more_history())
        self._unjudged = self._unjudged or came
        if not self._unjudged or not free:
            return Seen(came)
        self._unjudged = False
        began = self.spent()
        report, case = self._judge()
        self._free = self.clock() + min((self.spent() - began) / SHARE, self._most_to_wait)
        self._most_to_wait = math.inf
        return Seen(came, report, case.metrics)

    def _begin(self) -> None:
        self._head = b""
        self._number = 0
        self._start()

    def _start(self) -> None:
        name = str(self.path)
        self._source = Source(name, self.path, origin_of(name))
        self._reader = Reader(self._source, self.table)
        self._offset = 0
        codec = detect(self._head)
        self._decode = decoder(codec)
        self._strips = learned(decoder(codec)(self._head)) if self._head else []

    def _feed(self, data: bytes) -> None:
        """Text is read as its beginning is wrapped; as long as that is short, each piece may show more of it, and the
        file is read again."""
        young = len(self._head) < _SAMPLE
        if young:
            self._head += data
            self._start()
        text = self._text(self._head if young else data)
        self._reader.feed(Block(text, self._offset))
        self._offset += len(text)
        self._source.size = self._offset
        # A piece ends with a line, so that what follows the last one is empty, or the file's last line.
        for line in (self._text(data) if young else text).split(b"\n"):
            self._number += 1
            self._collector.feed(self._source.name, self._number, line.decode("utf-8", "replace"))
        self._number -= 1

    def _text(self, data: bytes) -> bytes:
        text = self._decode(data)
        for strip in self._strips:
            text = strip(text)
        return text

    def _more_history(self) -> bool:
        try:
            return self.history is not None and self.history.poll()
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or error}") from None

    def _judge(self) -> tuple[Report, Case]:
        kept = [self.history.series()] if self.history is not None else []
        if self.files > 1:
            kept.append(self._collector.series())
        known = replace(self.case, metrics=merge(kept)) if kept else self.case
        return judged_record(self._reader.so_far(), self.table, self.checks, known)
