"""The part of a log that is read line by line: takes interleaved processes apart and collects what hits announce."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rldoctor.logs.deaths import THROWN, Death, died
from rldoctor.logs.devices import TERMS as DEVICES
from rldoctor.logs.dumps import DumpParser, SummaryParser
from rldoctor.logs.forms import is_box_head, names_function
from rldoctor.logs.headers import header_of
from rldoctor.logs.liveness import bar_position, is_done, is_last_word, is_ordinary, is_progress
from rldoctor.logs.metrics import Collector
from rldoctor.logs.model import Origin
from rldoctor.logs.notes import MANY, Notes
from rldoctor.logs.places import ATTEMPT, NODE, RUN
from rldoctor.logs.prefixes import Line
from rldoctor.logs.printed import MOST, Collecting, begun
from rldoctor.logs.quoting import Samples, is_quoted
from rldoctor.logs.record import (
    AROUND_KEPT,
    KEEP,
    LINE_KEPT,
    MAIN_PROCESSES,
    WATCHED_LINES,
    Aftermath,
    FileRecord,
    Hits,
    NativeEnd,
    RawDeath,
    RawEvent,
    RawException,
    Start,
)
from rldoctor.logs.runs import is_launchers, slices
from rldoctor.logs.table import Anchor, Table, Use
from rldoctor.logs.templates import template
from rldoctor.logs.tracebacks import TracebackParser
from rldoctor.logs.world import TERMS

BEFORE = 12
AFTER = 24
# Raw lines that the region stays open for: behind a parser's last line, behind a hit, behind an exception. Sixty-four
# ranks write in turns, so that a process's next line may be far away.
_OPEN_PARSER = 600
_OPEN_AFTER = 400
_OPEN_AFTERMATH = 400
_MOST_EXCEPTIONS = 2000


class Region:
    """Line-by-line state of one file."""

    def __init__(self, record: FileRecord, table: Table) -> None:
        self.record = record
        self.table = table
        self.until = self._entered = 0
        self._recent: dict[Origin, deque[Line]] = {}
        self._samples = Samples()
        # What is open for a process: the token of the exception, its parser, and who shows the sample that it began in.
        self._parsers: dict[Origin, tuple[int, TracebackParser, Origin | None]] = {}
        # What the process had written before it: a kernel's assertion, a warning that explains it.
        self._ahead: dict[Origin, list[Line]] = {}
        self._dumps: dict[Origin, tuple[int, DumpParser, Origin | None]] = {}
        self._summary: tuple[int, SummaryParser] | None = None
        self._printing: dict[Origin, Collecting] = {}
        # Processes whose tracebacks began in the log: a frame on its own is none whose beginning is missing.
        self._traced: set[Origin] = set()
        self._listeners: list[RawEvent] = []
        self._watched: list[tuple[Origin, Aftermath]] = []
        self._time: float | None = None
        self._bar: int | None = None
        self._tokens = 0
        self.notes = Notes(record, table)
        # Of every end, the process that printed it (a remote exception happened in another) and what came after.
        self._marks: deque[tuple[Origin, Aftermath]] = deque(maxlen=MANY)

    @property
    def few(self) -> bool:
        """Whether so few failures were read that every one matters."""
        return len(self.record.exceptions) < MANY

    def open_at(self, number: int) -> bool:
        """Whether the line with that number is to be read."""
        return number <= self.until

    def settle(self) -> None:
        """In a log full of failures: what was printed in full is over, and where nothing is open no line is read."""
        for origin, (_, parser, _shower) in list(self._parsers.items()):
            if parser.part == "message":
                self._finish(origin)
        if not (self._parsers or self._dumps or self._summary or self._printing or self._listeners or self._watched):
            self.until = self._entered

    def forget(self) -> None:
        """The lines remembered so far are far away from what comes."""
        self._recent.clear()
        self._samples.forget()

    def enter(self, number: int) -> None:
        """Opens the region for at least one line."""
        self._entered = number
        self.until = max(self.until, number)

    def leave(self) -> None:
        """Closes the region: what is still open is taken as it is."""
        for origin in list(self._parsers):
            self._finish(origin)
        for origin in list(self._dumps):
            self._finish_dump(origin)
        if self._summary is not None:
            self._finish_summary(self._summary[1])
        self.record.printed += [text.finished() for text in self._printing.values()]
        self._printing.clear()
        self._listeners.clear()
        self._watched.clear()

    def remember(self, line: Line) -> None:
        """A line before the region, for the surroundings of what begins in it."""
        if line.stamp:
            self._time = line.time or self._time
        self._hear(line)
        self._samples.follow(line)
        if line.text.strip():
            self._recent.setdefault(line.origin, deque(maxlen=BEFORE)).append(line)

    def _hear(self, line: Line) -> None:
        """Notes which rank wrote, and which process it is."""
        if line.origin.rank is not None and len(self.record.ranks) < _MOST_EXCEPTIONS:
            self.record.ranks.add(line.origin.rank)
            if line.origin.pid is not None:
                self.record.rank_of.setdefault((line.origin.pid, line.origin.node), line.origin.rank)

    def tail_line(self, line: Line, number: int) -> None:
        """A line of the log's end, after the pass: shows whether its process went on."""
        self._hear(line)
        if is_done(line):
            self.record.done = number
        if is_last_word(line):
            self.record.last_word = number
        bar = bar_position(line)
        if is_progress(line, ended=self.record.last_word > 0) or (bar is not None and bar != self._bar):
            self.record.alive = number
        self._bar = bar if bar is not None else self._bar
        self.record.tail.append((number, line))
        if len(self.record.tail) > 200:
            del self.record.tail[:100]
        for origin, mark in self._marks:
            if origin == line.origin and number > mark.upto and mark.seen < WATCHED_LINES:
                mark.add(line, number)

    def line(self, line: Line, number: int, uses: list[int]) -> None:
        """One line of the region, with the literals that were found in it."""
        if line.stamp:
            self._time = line.time or self._time
        found = [(index, self.table.uses[index]) for index in dict.fromkeys(uses)]
        if any(use.start or use.early for _, use in found):
            self._finish(line.origin)  # such a line is nobody's message
        token, part = self._feed(line, number)
        self._watch(line, number)  # afterwards: a line that ends an exception is the first one behind it
        self.notes.count(uses)
        for _, use in found:
            if use.anchor is Anchor.SUMMARY:
                self._begin_summary(use.literal, line, number)  # it stands in the message of torchrun's own exception
            elif use.anchor is not None and token is None:
                token, part = self._begin(use.anchor, use.literal, line, number)
        self._print(line, number, [use for _, use in found])
        for index, use in found:
            self._mark(use, line, number)
            for death in use.deaths:
                self._die(death, line, number)
            if use.signatures:
                self._hit(index, use, line, number, token, part)
        self.remember(line)

    def _feed(self, line: Line, number: int) -> tuple[int | None, str]:
        """Gives the line to what is open for its process; the token and part of the exception that took it."""
        if self._summary is not None and not self._summary[1].feed(line):
            self._finish_summary(self._summary[1])
        dump = self._dumps.get(line.origin)
        if dump is not None:
            if dump[1].feed(line, number):
                self.until = max(self.until, number + _OPEN_PARSER)
                return dump[0], "code"
            self._finish_dump(line.origin)
        entry = self._parsers.get(line.origin)
        if entry is None:
            return None, ""
        if entry[1].feed(line, number):
            self.until = max(self.until, number + _OPEN_PARSER)
            return entry[0], entry[1].part
        self._finish(line.origin)
        return None, ""

    def _begin(self, anchor: Anchor, literal: str, line: Line, number: int) -> tuple[int | None, str]:
        """Opens what an anchor announces; the token of the exception that begins."""
        if is_quoted(line.text, max(0, line.text.find(literal))) and not is_box_head(line.text):
            return None, ""
        if anchor is Anchor.FRAME and (line.origin in self._traced or not names_function(line.text)):
            return None, ""
        if literal == THROWN and not line.text.lstrip().startswith(THROWN):
            return None, ""
        self._finish(line.origin)
        self._tokens += 1
        self.until = max(self.until, number + _OPEN_PARSER)
        if anchor in (Anchor.FATAL, Anchor.TERMINATE):
            self._finish_dump(line.origin)
            parser = DumpParser(line, number, self.record.name)
            self._dumps[line.origin] = (self._tokens, parser, self._samples.shower)
            return self._tokens, "message"
        traceback = TracebackParser(line.origin, self.record.name)
        before = list(self._recent.get(line.origin, ()))
        if anchor is Anchor.SEPARATOR:
            # It may stand before a carriage return of the same line.
            if not before or not traceback.begin_bare(before[-1], max(1, number - 1)):
                return None, ""
            for event in self._listeners:
                if event.origin == line.origin and event.token is None and event.line == before[-1].text[:LINE_KEPT]:
                    event.token, event.part = self._tokens, "message"
            traceback.feed(line, number)
        elif anchor is Anchor.FRAME:
            traceback.begin_torn(line, number)
        else:
            traceback.begin(line, number, header_of(before, line))
        if traceback.time is None:
            traceback.time = self._time
        self._parsers[line.origin] = (self._tokens, traceback, self._samples.shower)
        self._ahead[line.origin] = before
        self._traced.add(line.origin)
        return self._tokens, "header"

    def _begin_summary(self, literal: str, line: Line, number: int) -> None:
        if not is_quoted(line.text, max(0, line.text.find(literal))):
            self._summary = (number, SummaryParser(number))
            self.until = max(self.until, number + 20)

    def _finish(self, origin: Origin) -> None:
        entry = self._parsers.pop(origin, None)
        if entry is None:
            return
        token, parser, shower = entry
        exception = parser.result()
        if exception is not None:
            raw = RawException(exception, parser.first, parser.last, parser.ranked, parser.level, shower is not None)
            self._store(token, raw, shower or origin)

    def _finish_dump(self, origin: Origin) -> None:
        entry = self._dumps.pop(origin, None)
        if entry is not None:
            token, parser, shower = entry
            quoted = shower is not None or not (parser.at_start or parser.confirmed)
            end = NativeEnd.SURE if parser.confirmed else NativeEnd.SAID
            raw = RawException(parser.result(), parser.first, parser.last, quoted=quoted, native=end)
            self._store(token, raw, shower or origin)

    def _finish_summary(self, parser: SummaryParser) -> None:
        self._summary = None
        self.record.summaries.append(parser.result(self.record.name))

    def _store(self, token: int, raw: RawException, origin: Origin) -> None:
        exceptions = self.record.exceptions
        if len(exceptions) >= _MOST_EXCEPTIONS:
            self.record.tokens.pop(exceptions.pop(_MOST_EXCEPTIONS // 2).token, None)
        raw.token = token
        exceptions.append(raw)
        self.record.tokens[token] = raw
        if is_launchers(raw, self.record):
            self.record.metrics.append((raw.last + 1, Collector()))
        self._watch_for(origin, raw.last, raw.aftermath, len(exceptions))

    def _watch_for(self, origin: Origin, last: int, mark: Aftermath, count: int) -> None:
        """Begins to watch what the process does after an end."""
        mark.upto = last
        mark.usual = frozenset(template(line.text) for line in self._recent.get(origin, ()) if is_ordinary(line))
        self._marks.append((origin, mark))
        if count <= MANY:
            self._watched.append((origin, mark))
            self.until = max(self.until, last + _OPEN_AFTERMATH)

    def _watch(self, line: Line, number: int) -> None:
        """Counts the line for the exceptions of its process, and adds it to the surroundings of its hits."""
        if self._watched:
            for origin, mark in self._watched:
                if origin == line.origin and number > mark.upto:
                    mark.add(line, number)
            self._watched = [w for w in self._watched if w[1].seen < WATCHED_LINES]
        if self._listeners and line.text.strip():
            for event in self._listeners:
                if event.origin == line.origin:
                    event.after.append(line.text[:AROUND_KEPT])
            self._listeners = [event for event in self._listeners if len(event.after) < AFTER]

    def _mark(self, use: Use, line: Line, number: int) -> None:
        if (use.start or use.early) and line.origin.actor in MAIN_PROCESSES:
            starts = self.record.starts
            if len(starts) < MANY and not is_quoted(line.text, max(0, line.text.find(use.literal))):
                starts.append(Start(number, use.literal, use.early, line.origin.rank))
                if slices(self.record)[-1].first == number > 1:
                    self.record.metrics.append((number, Collector()))
        if use.stage is not None:
            self.record.stages = [*self.record.stages[-50:], (number, use.stage)]
        for reveal in use.reveals:
            match = reveal.pattern.search(line.text)
            if match is not None and reveal.what == "rank" and line.origin.pid is not None:
                self.record.rank_of.setdefault((line.origin.pid, line.origin.node), match[1])
            elif match is not None and reveal.what in (NODE, ATTEMPT, RUN):
                self.record.places = [*self.record.places[-500:], (number, reveal, match[1])]
            elif match is not None and reveal.what in TERMS:
                self.record.world = [*self.record.world[-500:], (number, reveal.what, int(match[1]))]
            elif match is not None and reveal.what in DEVICES:
                self.record.devices = [*self.record.devices[-500:], (number, reveal.what, match[1])]
            elif match is not None and len(self.record.versions) < 500:
                self.record.versions.append((number, reveal.what, match[1]))

    def _print(self, line: Line, number: int, uses: list[Use]) -> None:
        """Collects what the line's process prints of how it was started."""
        going = self._printing.get(line.origin)
        if going is not None:
            going.feed(line.text, record=bool(line.level))
        elif len(self.record.printed) + len(self._printing) < MOST and self._samples.shower is None:
            texts = (begun(form, line, number) for use in uses for form in use.forms)
            going = next((text for text in texts if text is not None), None)
            if going is not None:
                self._printing[line.origin] = going
        if going is not None and going.open:
            self.until = max(self.until, number + _OPEN_PARSER)
        elif going is not None:
            self.record.printed.append(self._printing.pop(line.origin).finished())

    def _die(self, death: Death, line: Line, number: int) -> None:
        match = death.pattern.match(line.text)
        if match is None or len(self.record.deaths) >= _MOST_EXCEPTIONS or self._samples.shower is not None:
            return
        if line.level in ("DEBUG", "INFO"):
            return
        if is_quoted(line.text, max(0, line.text.find(death.literal))):
            return
        if death.behind and (
            self._parsers
            or any(not raw.quoted for raw in self.record.exceptions)
            or (self.record.deaths and not death.launcher)
        ):
            return
        ended, code = died(death, match, line, self.record.name, number, self._time)
        raw = RawDeath(ended, number, death.launcher, code, death.behind, death.any_child)
        self.record.deaths.append(raw)
        self._watch_for(line.origin, number, raw.aftermath, len(self.record.deaths))

    def _hit(self, index: int, use: Use, line: Line, number: int, token: int | None, part: str) -> None:
        hits = self.record.hits.setdefault(index, Hits())
        at = max(0, line.text.find(use.literal))
        before: Iterable[Line] = self._recent.get(line.origin, ())
        in_sample = line.level is None and self._samples.shower is not None
        # Other lines of the source, and variables, are shown beside the line that raised.
        quoted = part == "around" or (token is None and (in_sample or is_quoted(line.text, at)))
        event = RawEvent(
            index,
            line.text[:LINE_KEPT],
            number,
            line.origin,
            line.time if line.stamp else self._time,
            line.level,
            token,
            part,
            quoted,
        )
        event.repeated = line.repeated
        if hits.count < KEEP:
            if token is not None and line.origin in self._parsers:
                near = set(map(id, before))
                before = [*(old for old in self._ahead[line.origin] if id(old) not in near), *before]
            event.before = tuple(old.text[:AROUND_KEPT] for old in before)
            self._listeners.append(event)
            self.until = max(self.until, number + (_OPEN_AFTER if hits.count < 8 else 40))
        hits.add(event)
