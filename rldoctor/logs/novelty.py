"""Which lines of a failed run a healthy run's log does not have, the most telling first."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from rldoctor.errors import InputError
from rldoctor.logs.baseline import Baseline, shapes
from rldoctor.logs.encodings import text_of
from rldoctor.logs.fatality import Failure
from rldoctor.logs.prefixes import Line, parse
from rldoctor.logs.quoting import Samples, is_quoted
from rldoctor.logs.runs import Slice
from rldoctor.logs.sources import Source
from rldoctor.logs.templates import template, words
from rldoctor.model import Evidence, Finding
from rldoctor.records import dataclass

# So many lines before the failure are all looked at; of those farther away, only warnings and errors.
NEAR = 300
# Shown where no pattern is known, and as support where one is.
MOST_SHOWN, MOST_SUPPORTING = 10, 3
_MOST_KINDS = 20_000
_LONGEST_LINE = 4096
_SHOWN = 300

_LEVEL = {"CRITICAL": 3.0, "ERROR": 3.0, "WARNING": 2.0}
_WARNS = re.compile(r"\b\w*Warning: ")
_COMPLAINS = re.compile(
    r"(?i)\b(?:error|fail(?:ed|ure)?|fatal|warn(?:ing)?|invalid|unable|cannot|can't|could not|refused|time[ds]? ?out|"
    r"kill(?:ed)?|mismatch|missing|not found|fall(?:s|ing)? back|ignored?|retry(?:ing)?|dropp?(?:ed|ing)?|nan|inf)\b"
)
# Frames and code of tracebacks, and what else is indented below a line that says it.
_BELOW = re.compile(r"\s{3,}|\s*File \"|\s*[~^]|Traceback \(")


@dataclass
class _New:
    """Lines of one template: one of the first, and where the last one stands."""

    line: Line
    number: int
    last: int


@dataclass(frozen=True)
class Compared:
    """What a healthy run wrote, and the sources (by name) of the run that is compared with it."""

    baseline: Baseline
    sources: dict[str, Source] = field(default_factory=dict)

    def new(self, pieces: Sequence[Slice], failure: Failure | None) -> tuple[Evidence, ...]:
        """The lines before the first failure (in a run without one: before its end) that are new, at most
        :data:`MOST_SHOWN`, the most telling first."""
        found: list[tuple[float, Evidence]] = []
        for piece in [failure.slice] if failure is not None else pieces:
            stop = failure.number - 1 if failure is not None else piece.last
            search = _Search(self.baseline, piece, stop)
            source = self.sources[piece.record.name].again()
            try:
                if source is not None:
                    search.stream(source)
            except InputError:  # removed since it was read
                source = None
            if source is None:  # as standard input is gone; of both the end was kept
                search.near((number, line) for number, line in piece.record.tail if piece.first <= number <= stop)
            found += search.reported()
        found.sort(key=lambda item: -item[0])
        return tuple(evidence for _, evidence in found[:MOST_SHOWN])

    def supported(self, findings: tuple[Finding, ...], new: Sequence[Evidence]) -> tuple[Finding, ...]:
        """The findings, the first one with a few of the new lines as further evidence where it cites none itself."""
        if not findings or any(evidence in findings[0].evidence for evidence in new):
            return findings
        first = replace(findings[0], evidence=(*findings[0].evidence, *new[:MOST_SUPPORTING]))
        return (first, *findings[1:])


class _Search:
    """The search through one file's part of the run, up to the line ``stop``."""

    def __init__(self, baseline: Baseline, piece: Slice, stop: int) -> None:
        self.baseline = baseline
        self.piece = piece
        self.stop = stop
        self._new: dict[str, _New] = {}
        self._known: set[bytes] = set()

    def stream(self, source: Source) -> None:
        """Reads the file once more, up to the failure."""
        last: deque[tuple[int, bytes]] = deque(maxlen=NEAR)
        number = 1
        for block in source.blocks():
            lines = block.data.split(b"\n")
            first, number = number, number + len(lines) - 1
            if number < self.piece.first:
                continue
            lines = lines[max(0, self.piece.first - first) : max(0, self.stop - first + 1)]
            start = max(first, self.piece.first)
            last.extend(enumerate(lines[-NEAR:], start + max(0, len(lines) - NEAR)))
            self._far(lines, start)
            if number > self.stop:
                break
        self.near((at, self._parsed(raw.rstrip(b"\r").rpartition(b"\r")[2])) for at, raw in last)

    def near(self, lines: Iterable[tuple[int, Line]]) -> None:
        """Looks at every one of the last lines before the failure."""
        samples = Samples()
        for number, line in lines:
            samples.follow(line)
            if samples.shower is None or line.level is not None:
                self._take(line, number)

    def reported(self) -> list[tuple[float, Evidence]]:
        """What was found, with how telling it is."""
        found = []
        for kind, new in self._new.items():
            text = f"new against the baseline: {new.line.text.strip()[:_SHOWN]}"
            evidence = Evidence(text=text, source=self.piece.record.name, line=new.number)
            found.append((self._weight(kind, new), evidence))
        return found

    def _far(self, lines: list[bytes], start: int) -> None:
        """Looks at warnings and errors among many lines, one of each shape."""
        places: dict[bytes, int] = {}
        for shape, raw in shapes(b"\n".join(lines)).items():
            if shape in self._known:
                continue
            if len(self._known) < _MOST_KINDS:
                self._known.add(shape)
            line = self._parsed(raw)
            if line.level in _LEVEL or _WARNS.search(line.text):
                places = places or {part: at for at, whole in enumerate(lines, start) for part in whole.split(b"\r")}
                self._take(line, places.get(raw, start))

    def _parsed(self, raw: bytes) -> Line:
        return parse(text_of(raw[:_LONGEST_LINE]), self.piece.record.origin)

    def _take(self, line: Line, number: int) -> None:
        text = line.text
        if _BELOW.match(text) or is_quoted(text, len(text)):
            return
        kind = template(text)
        if len(words(kind)) < 2 or self.baseline.knows(kind):
            return
        seen = self._new.get(kind)
        if seen is not None:
            seen.last = max(seen.last, number)
        elif len(self._new) < _MOST_KINDS:
            self._new[kind] = _New(line, number, number)

    def _weight(self, kind: str, new: _New) -> float:
        """How telling a line is: what it calls itself, how much of it was never heard, how near to the failure."""
        text = new.line.text
        level = _LEVEL.get(new.line.level or "", 0.0) or (2.0 if _WARNS.search(text) else 0.0)
        complaint = level or (1.5 if _COMPLAINS.search(text) else 0.0)
        close = 2.0 / (1.0 + max(0, self.stop - new.last) / 25)
        return complaint + 2 * self.baseline.unheard(kind) + close
