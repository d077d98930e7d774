"""Reads one log in one pass: jumps from hit to hit, and goes line by line only where something begins."""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator

from rldoctor.logs.bare import add_endings
from rldoctor.logs.encodings import text_of
from rldoctor.logs.literals import Hit
from rldoctor.logs.notes import Worth
from rldoctor.logs.prefixes import Line, parse
from rldoctor.logs.record import FileRecord
from rldoctor.logs.region import Region
from rldoctor.logs.secrets import Secrets
from rldoctor.logs.sources import Block, Source
from rldoctor.logs.table import Anchor, Table

# How far back the surroundings of a hit are read, in bytes: for the first visits, and once a log has very many.
_BACK = 48 << 10
_BACK_LATER = 2 << 10
_MANY_VISITS = 200
# The end of a log is always read line by line: there a run shows whether it went on.
TAIL = 128 << 10
_LONGEST_LINE = 16 << 10
# A line's prefixes end within so many bytes.
_PREFIX = 400
# Failures that begin alike in so many bytes, their numbers apart, are one failure that repeats itself; after so many
# of them one in so many is read. What stands in the last blocks is always read.
_ALIKE = 400
_OFTEN = 50
_ONE_IN = 64
_MOST_SHAPES = 5000
_LAST_BLOCKS = 2
_DIGITS = re.compile(rb"\d+")


def read(source: Source, table: Table) -> FileRecord:
    """One source's record. Raises :class:`rldoctor.errors.InputError` where it holds no text."""
    reader = Reader(source, table)
    held: deque[Block] = deque()
    for block in source.blocks():
        held.append(block)
        if len(held) > _LAST_BLOCKS:
            reader.feed(held.popleft(), more=True)
    for block in held:
        reader.feed(block)
    return reader.finish()


class Reader:
    """Takes the blocks of one source in their order; a log that still grows is read once, whenever more is there."""

    def __init__(self, source: Source, table: Table) -> None:
        self.source = source
        self.table = table
        self.record = FileRecord(source.name, source.origin)
        self.region = Region(self.record, table)
        self.notes = self.region.notes
        self.secrets = Secrets()
        self.number = 1
        self.visits = 0
        # How often failures of one shape began, and whether more blocks are known to follow this one.
        self._shapes: Counter[bytes] = Counter()
        self._more = False
        # Up to this offset of the text the region has seen all lines.
        self.known = 0
        self.tail = b""

    def feed(self, block: Block, more: bool = False) -> None:
        """Takes the next block, which ends at a line's end. ``more`` says that it is none of the last ones: failures
        that repeat themselves are counted in it."""
        self._more = more
        self.secrets.learn(block.data)
        self._block(block, self.table.find(block.data))
        self.tail = ((b"" if len(block.data) >= TAIL else self.tail) + block.data[-TAIL:])[-TAIL:]

    def so_far(self) -> FileRecord:
        """The record as if the log ended here; more blocks may follow."""
        shared = {id(self.table): self.table, id(self.source): self.source}
        return copy.deepcopy(self, shared).finish()

    def finish(self) -> FileRecord:
        """The record of all that was fed; nothing may follow."""
        self.region.leave()
        self.notes.unpack(self._parsed)
        self._tail()
        add_endings(self.record)
        self.record.lines = self.number
        self.record.size = self.source.size
        self.record.partial = self.source.partial
        return self.record

    def _block(self, block: Block, hits: list[Hit]) -> None:
        """Works through a block: from hit to hit, or from line to line as long as the region is open."""
        data = block.data
        ends = [end for end, _ in hits]
        at, position = 0, 0
        while position < len(data):
            if self.region.open_at(self.number):
                stop = data.find(b"\n", position) + 1 or len(data)
                upto = bisect_right(ends, stop, at)
                if upto > at and self._repeats(block, position, [use for _, use in hits[at:upto]]):
                    self.region.settle()
                    if not self.region.open_at(self.number):
                        continue
                self._line(data[position:stop], [(end - position, use) for end, use in hits[at:upto]])
                at = upto
                self.number += data.endswith(b"\n", position, stop)
                position = stop
                self.known = block.offset + stop
                continue
            self.region.leave()
            while at < len(hits) and self.notes.worth(hits[at][1]) is Worth.NOTHING:
                at += 1
            if at >= len(hits):
                break
            start = data.rfind(b"\n", position, ends[at] - 1) + 1 or position
            self.number += data.count(b"\n", position, start)
            position = start
            stop = data.find(b"\n", start) + 1 or len(data)
            upto = bisect_right(ends, stop, at)
            if self._look(block, start, stop, [use for _, use in hits[at:upto]]):
                self.region.enter(self.number)
            else:
                at = upto
                self.number += data.endswith(b"\n", start, stop)
                position = stop
        self.number += data.count(b"\n", position)

    def _look(self, block: Block, start: int, stop: int, uses: list[int]) -> bool:
        """Whether the line at ``start`` deserves that the region opens; where it does not, it is only noted."""
        worth = max(self.notes.worth(use) for use in uses)
        if worth is Worth.LOOK and self._repeats(block, start, uses):
            worth = Worth.NOTE
        if worth <= Worth.NOTE:
            if self.notes.note(block.data[start:stop], self.number, uses):
                self.region.enter(self.number + 1)
                self.known = block.offset + stop
            return False
        if worth is Worth.PROBE and not self.notes.is_death(self._parsed(block.data[start:stop]), uses):
            return False
        if self.notes.wants_surroundings(uses):
            self._look_back(block, start)
        return True

    def _repeats(self, block: Block, start: int, uses: list[int]) -> bool:
        """Whether what begins at ``start`` is a failure that was read often enough before."""
        if not self._more or self.region.few or not self.notes.only_begins(uses):
            return False
        shape = _DIGITS.sub(b"", block.data[start : start + _ALIKE])
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        self._shapes[shape] += 1
        within = all(self.table.uses[use].anchor is Anchor.FRAME for use in uses)
        return self._shapes[shape] > _OFTEN and (within or self._shapes[shape] % _ONE_IN != 0)

    def _line(self, raw: bytes, hits: list[Hit]) -> None:
        measured = self.notes.wants_more() or self.notes.hears([use for _, use in hits], raw)
        if measured and self.notes.measure(raw, self.number):
            self.region.enter(self.number + 1)
        first = self._parsed(raw[:_PREFIX]) if b"\r" in raw[:-2] else None
        for piece, inside in _pieces(raw, hits):
            self.region.line(self._inherited(self._parsed(piece), first), self.number, [use for _, use in inside])

    def _inherited(self, line: Line, first: Line | None) -> Line:
        """What is redrawn behind a carriage return has the prefix of its line's beginning."""
        if first is not None and line.origin == self.source.origin:
            line.origin, line.level = first.origin, line.level or first.level
            line.tag, line.stamp = line.tag or first.tag, line.stamp or first.stamp
        return line

    def _look_back(self, block: Block, start: int) -> None:
        """Gives the region the lines before ``start`` that it has not seen, from this block and the end of the last."""
        self.visits += 1
        reach = _BACK if self.visits <= _MANY_VISITS else _BACK_LATER
        unseen = block.offset + start - self.known
        if unseen > reach:
            self.region.forget()
        reach = min(reach, unseen)
        before = block.data[max(0, start - reach) : start]
        if len(before) < reach and self.tail:
            before = self.tail[-(reach - len(before)) :] + before
        lines = before.split(b"\n")[:-1]
        for raw in lines[1 if reach < unseen else 0 :]:
            shown = raw.rstrip(b"\r")
            first = self._parsed(shown[:_PREFIX]) if b"\r" in shown else None
            self.region.remember(self._inherited(self._parsed(shown.rsplit(b"\r", 1)[-1]), first))

    def _tail(self) -> None:
        lines = self.tail.split(b"\n")
        whole = lines if len(self.tail) < TAIL else lines[1:]
        first = self.number - len(whole) + 1
        for offset, raw in enumerate(whole):
            head = self._parsed(raw[:_PREFIX]) if b"\r" in raw[:-2] else None
            for piece, _ in _pieces(raw, []):
                self.region.tail_line(self._inherited(self._parsed(piece), head), first + offset)

    def _parsed(self, raw: bytes) -> Line:
        if len(raw) > _LONGEST_LINE:
            raw = raw[: _LONGEST_LINE // 2] + b" ... " + raw[-_LONGEST_LINE // 2 :]
        return parse(text_of(raw.rstrip(b"\r\n")), self.source.origin)


def _pieces(raw: bytes, hits: list[Hit]) -> Iterator[tuple[bytes, list[Hit]]]:
    """What a terminal would have shown one after the other: a line is cut at its carriage returns, and around its hits
    where it is very long."""
    raw = raw.rstrip(b"\r\n")
    if b"\r" in raw:
        start = 0
        for piece in raw.split(b"\r"):
            stop = start + len(piece)
            inside = [(end - start, use) for end, use in hits if start < end <= stop]
            if piece and (inside or stop > len(raw) - _LONGEST_LINE):
                yield from _around(piece, inside)
            start = stop + 1
    else:
        yield from _around(raw, hits)


def _around(raw: bytes, hits: list[Hit]) -> Iterator[tuple[bytes, list[Hit]]]:
    if len(raw) <= _LONGEST_LINE or not hits:
        yield raw, hits
        return
    at = 0
    while at < len(hits):
        centre = hits[at][0]
        start, stop = max(0, centre - _LONGEST_LINE // 2), centre + _LONGEST_LINE // 2
        group = [(end - start, use) for end, use in hits[at:] if end <= stop]
        yield raw[:256] + b" ... " + raw[start:stop] if start > 256 else raw[:stop], group
        at += len(group)
