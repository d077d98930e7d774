"""Decides how closely a hit is looked at, and keeps what is only noted: very frequent lines, and lines of metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import IntEnum

from rldoctor.logs.encodings import text_of
from rldoctor.logs.prefixes import Line, unwrapped
from rldoctor.logs.quoting import is_quoted
from rldoctor.logs.record import KEEP, FileRecord, Hits, RawEvent
from rldoctor.logs.table import Table

# From here on a log repeats itself, and only what begins is read.
MANY = 200
_LONGEST = 16 << 10
_WRITERS_HEARD = 4
_WRITER = re.compile(
    rb"(?:\x1b\[[0-9;]*m)*(?:\[[A-Za-z]{0,30}\d{1,5}\]:?|\([^()]{0,80}\bpid=\d+[^()]{0,80}\)| *\d{1,5}:(?= ))"
)


class Worth(IntEnum):
    """How closely a hit is looked at: not at all, noted unread, read alone, with everything around it."""

    NOTHING = 0
    NOTE = 1
    PROBE = 2
    LOOK = 3


class Notes:
    """What was found so often, or means so little, that no line around it is read."""

    def __init__(self, record: FileRecord, table: Table) -> None:
        self.record = record
        self.table = table
        # How often each literal was looked at.
        self._seen: dict[int, int] = {}
        # Of every literal of metrics, whose lines are read.
        self._writers: dict[int, list[bytes]] = {}

    def count(self, uses: Iterable[int]) -> None:
        """These literals were looked at once more."""
        for index in set(uses):
            self._seen[index] = self._seen.get(index, 0) + 1

    def worth(self, index: int) -> Worth:
        """What a hit of a literal deserves, after all that were found of it before."""
        use = self.table.uses[index]
        if use.anchor is not None or use.start:
            return Worth.LOOK
        seen = self._seen.get(index, 0)
        if use.deaths:
            return Worth.LOOK if seen < MANY else Worth.PROBE
        if use.signatures:
            return Worth.LOOK if seen < KEEP else Worth.NOTE
        if use.stage is not None or use.metric:
            return Worth.NOTE
        return Worth.LOOK if seen < KEEP else Worth.NOTHING

    def wants_surroundings(self, uses: list[int]) -> bool:
        """Whether lines around the hits of these literals are of use."""
        for index in uses:
            use = self.table.uses[index]
            known = self.record.hits.get(index)
            if use.anchor is not None or use.deaths or (use.signatures and (known is None or known.count < KEEP)):
                return True
        return False

    def only_begins(self, uses: Iterable[int]) -> bool:
        """Whether nothing but the beginning of a failure makes these literals worth a look."""
        return all(
            self.table.uses[index].anchor is not None or self.worth(index) <= Worth.NOTE for index in uses
        ) and not any(self.table.uses[index].start or self.table.uses[index].deaths for index in uses)

    def is_death(self, line: Line, uses: list[int]) -> bool:
        """Whether a line is one of the ends that these literals may announce."""
        return any(death.pattern.match(line.text) for index in uses for death in self.table.uses[index].deaths)

    def note(self, raw: bytes, number: int, uses: list[int]) -> bool:
        """Remembers a line of which there are very many, unread, or gives it to the metrics; whether more belongs to
        it."""
        follows = self.hears(uses, raw) and self.measure(raw, number)
        for index in uses:
            use = self.table.uses[index]
            if use.stage is not None:
                self.record.stages = [*self.record.stages[-50:], (number, use.stage)]
            if use.signatures:
                hits = self.record.hits.setdefault(index, Hits())
                hits.count += 1
                hits.unread.append((number, raw[:_LONGEST]))
        return follows

    def hears(self, uses: Iterable[int], raw: bytes) -> bool:
        """Whether a line holds metrics and the process that wrote it is one of the few whose metrics are read: all
        ranks log the same ones."""
        measured = [index for index in uses if self.table.uses[index].metric]
        if not measured:
            return False
        writer = _WRITER.match(raw, 0, 200)
        name = writer[0] if writer is not None else b""
        for index in measured:
            heard = self._writers.setdefault(index, [])
            if name not in heard and len(heard) < _WRITERS_HEARD:
                heard.append(name)
        return any(name in self._writers[index] for index in measured)

    def measure(self, raw: bytes, number: int) -> bool:
        """Gives a line to the metrics; whether they want the next one too."""
        collector = self.record.metrics[-1][1]
        collector.feed(self.record.name, number, unwrapped(text_of(raw).rstrip("\r\n")))
        return collector.follows(self.record.name)

    def wants_more(self) -> bool:
        """Whether a record of metrics goes on in the next line."""
        return self.record.metrics[-1][1].follows(self.record.name)

    def unpack(self, parsed: Callable[[bytes], Line]) -> None:
        """Reads the last of the lines that were only noted."""
        for index, hits in self.record.hits.items():
            literal = self.table.uses[index].literal
            for number, raw in hits.unread:
                piece = next((p for p in reversed(raw.split(b"\r")) if literal.encode() in p), raw)
                line = parsed(piece)
                quoted = is_quoted(line.text, max(0, line.text.find(literal)))
                hits.last.append(RawEvent(index, line.text, number, line.origin, line.time, line.level, quoted=quoted))
