"""The readings of a text: as it stands, and as somebody reads it who undoes what programs did to it. A secret in JSON
inside JSON, in a percent-encoded query, in colours, or behind the prefix that a rank gives to every line is written
plainly in one of them; where it was found there is brought back to the text as it stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from rldoctor.expressions import expression
from rldoctor.records import dataclass
from rldoctor.redact.spans import Span

# What quoting, JSON, URLs and HTML make of a character, and a shell of a quote inside quotes.
_ESCAPED = expression(
    r"'(?:\"'\"|\\')'|\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|033|[nrte\"'`/\\])"
    r"|%[2-7][0-9A-Fa-f]|%0[AaDd]|&(?:#\d{1,6}|#x[0-9a-fA-F]{1,5}|[a-z]{2,6});"
)
_BY_LETTER = {"n": "\n", "r": "\r", "t": "\t", "e": "\x1b", "033": "\x1b"}
# JSON inside JSON inside JSON, and what quotes that.
_LEVELS = 5
_COLOUR = expression(r"\x1b\[[\d;:?]{0,32}[A-Za-z]")
# A record of JSON around what a program says in a line: what may stand beside it, and before it.
_FIELD = r"\"[\w.@-]{1,40}\":[ ]?(?:\"[^\"\\\n]{0,120}\"|[\w.-]{1,40})"
_RECORD_ENDS = rf"\"(?:,[ ]?{_FIELD}){{0,8}}\}}$"
_RECORD = expression(
    rf"\{{(?:{_FIELD},[ ]?){{0,8}}\"(?:log|msg|message)\":[ ]?\"(?=(?:[^\"\\\n]|\\.){{0,4096}}{_RECORD_ENDS})",
    re.MULTILINE,
)
# Characters without a width, and what a line has before what a program says: a quotation's sign, a side of a
# difference or of a table; the rank, process or container, the time, the level and the place that speak.
_LAYER = expression(
    r"[\x00\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
    r"|^(?:>[ \t]?(?!>)|[+<-](?![+<-]|removed:))?(?:[│┃|][ \t]?)?"
    r"(?:[A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d[ ][\w.-]{1,64}[ ][\w./@-]{1,64}(?:\[\d{1,9}\])?:[ ]?"
    r"|std(?:out|err)[ ][FP][ ]?"
    r"|\[[^\[\]\n]{1,60}\](?![ \t]{0,256}[│┃|]?$):?[ \t]?|\([^()\n]{1,80}\)[ \t]"
    r"|E[ ]{3}|\d{1,5}:[ \t]|[\w.-]{1,64}[ \t]{1,8}\|[ \t]"
    r"|(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[\d.,:]{0,10}(?:Z|[+-]\d\d:?\d\d)?[ \t]{0,2}"
    r"|(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\b[: \t]{1,8}|\|[ \t](?=\w)"
    r"|[\w./-]{1,80}(?::[\w<>]{1,60})?:\d{1,6}\]?:?[ \t]"
    rf"|(?<=[\w\]][ \t])-[ \t]){{0,8}}(?:{_RECORD.pattern})?"
    r"|(?:(?<![ \t])|(?<=[│┃|][ \t]))[ \t]{0,256}[│┃]$|\r$"
    rf"|(?:\\n)?{_RECORD_ENDS}",
    re.MULTILINE,
)


# As long as lines are where a terminal or a frame breaks them, wherever in a word; how long those of terminals are.
_FULL = range(60, 512)
_TERMINALS = frozenset((72, 76, 80, 100, 120, 132, 160, 200))
_FRAME = expression(r"[│┃][ \t]{0,4}$", re.MULTILINE)
# What begins a line of its own.
_BEGINS = expression(
    r"\s(?!=[ \t])|[-+>#]{1,4} |[(\[│┃]|\d{4}-\d\d|export |[\w.-]{4,64}:\s|[A-Z][A-Z0-9_]{3,64}=[\"']?[\w/.$~]"
)
_LINE_ENDS = expression(r"\r?\n")
_RETURN = expression(r"\r(?!\n)")


@dataclass(frozen=True)
class Reading:
    """A text, and where each stretch of it stands in the text that it was made of."""

    text: str
    before: Reading | None = None
    at: tuple[int, ...] = ()
    stood: tuple[tuple[int, int], ...] = ()

    def back(self, span: Span) -> Iterator[Span]:
        """Where in the text as it stands is what ``span`` holds here: one stretch, or one for each line where something
        was taken off the lines."""
        if self.before is None:
            yield span
            return
        start = end = -1
        for piece in range(bisect_right(self.at, span.start) - 1, len(self.at)):
            at, (first, last) = self.at[piece], self.stood[piece]
            if at >= span.end:
                break
            following = self.at[piece + 1] if piece + 1 < len(self.at) else len(self.text)
            if following - at == last - first:  # as it stands; an escape goes whole
                first, last = first + max(0, span.start - at), last - max(0, following - span.end)
            if start >= 0 and first > end and "\n" in self.text[max(0, at - 1) : at + 1]:
                yield from self._lines(start, end, span.name)
                start = -1
            start, end = start if start >= 0 else first, last
        if start >= 0:
            yield from self._lines(start, end, span.name)

    def _lines(self, start: int, end: int, name: str) -> Iterator[Span]:
        if self.before is None:
            return
        held = self.before.text[start:end]
        start, end = start + len(held) - len(held.lstrip("\n")), end - len(held) + len(held.rstrip("\n"))
        if start < end:
            yield from self.before.back(Span(start, end, name))


def readings(text: str) -> Iterator[Reading]:
    """The text itself, then with its escapes undone level by level; each also without colours and lines' prefixes."""
    first = Reading(text)
    # A line may end without the other half of Windows' own.
    reading: Reading | None = _changed(first, _RETURN, lambda found: "\n") or first
    for level in range(_LEVELS):
        if reading is None:
            return
        plain = _changed(reading, _COLOUR, lambda found: "")
        bare = _changed(plain or reading, _LAYER, _blank) or plain
        for one in (reading, bare):
            if one is not None:
                yield one
                whole = _joined(one, plain or reading, framed=_FRAME.search(text) is not None) if not level else None
                yield from (whole,) if whole is not None else ()
        reading = _changed(reading, _ESCAPED, _unescaped)


def _joined(reading: Reading, printed: Reading, *, framed: bool) -> Reading | None:
    """The text before a terminal or a frame broke its lines: those that are full, as they were printed, and no line is
    longer."""
    ends = [*_LINE_ENDS.finditer(reading.text)]
    widths = [len(line) for line in _LINE_ENDS.split(printed.text)]
    if len(widths) != len(ends) + 1:
        return None
    width = max(widths)
    widths.pop()
    full = [end for end, one in zip(ends, widths, strict=True) if one == width]
    if width not in _FULL or not (framed or len(full) > 1 or width in _TERMINALS):
        return None
    broken = {
        end.start()
        for end in full
        if not reading.text[end.start() - 1].isspace() and not _BEGINS.match(reading.text, end.end())
    }
    return _changed(reading, _LINE_ENDS, lambda end: "" if end.start() in broken else end[0]) if broken else None


def _changed(reading: Reading, what: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> Reading | None:
    parts: list[str] = []
    at: list[int] = []
    stood: list[tuple[int, int]] = []
    position = length = 0

    def keep(part: str, start: int, end: int) -> None:
        nonlocal length
        if part:
            parts.append(part)
            at.append(length)
            stood.append((start, end))
            length += len(part)

    for found in what.finditer(reading.text):
        if (changed := change(found)) == found[0]:
            continue
        keep(reading.text[position : found.start()], position, found.start())
        keep(changed, found.start(), found.end())
        position = found.end()
    if not position:
        return None
    keep(reading.text[position:], position, len(reading.text))
    return Reading("".join(parts), reading, tuple(at), tuple(stood))


def _blank(found: re.Match[str]) -> str:
    """A NUL ends a word of a command line and a variable of an environment; behind a single letter it is half of one
    in UTF-16."""
    if found[0].endswith("}"):
        line = found.string.rfind("\n", 0, found.start()) + 1
        return "" if _RECORD.search(found.string, line, found.end()) else found[0]
    before = found.string[max(0, found.start() - 2) : found.start()]
    return " " if found[0] == "\0" and len(before) == 2 and "\0" not in before else ""


def _unescaped(found: re.Match[str]) -> str:
    whole = found[0]
    if whole[0] == "'":
        return "'"
    if whole[0] == "&":
        import html  # its table of names is large

        return html.unescape(whole)
    if whole[0] == "%" or whole[1] in "ux":
        number = int(whole.lstrip("\\ux%"), 16)
        return chr(number) if not 0xD800 <= number < 0xE000 else "\ufffd"  # half of a pair is no character
    return _BY_LETTER.get(whole[1:], whole[1:])
