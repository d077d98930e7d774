"""Values once known as secrets, for as long as the process lives: they are removed wherever they appear again, also
escaped, and where a line breaks them in two."""

from __future__ import annotations

import base64
import itertools
import shlex
import urllib.parse
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from rldoctor.expressions import expression
from rldoctor.redact.beginnings import Beginnings
from rldoctor.redact.marks import is_mark
from rldoctor.redact.names import is_long_and_random, is_path
from rldoctor.redact.spans import Span

_SHORTEST = 6
_SHORTEST_IN_BASE64 = 8
_SHORTEST_PHRASE = 10
# So much of a secret at the end of a line, or at the beginning of the next, is a piece of it.
_PIECE = 8
# So much of it, with letters and digits, is one anywhere.
_TELLING = 12
_MOST = 4000
_LONGEST = 8192
_ORDINARY = expression(r"[\d.]+|(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?")
_LONGEST_NAME = 32
_NUMBERED = expression(r"[A-Za-z]+\d?(?:[._-]+[A-Za-z]*\d?)*")
# A line break, also as it stands in JSON, with what may stand around it: a shell's backslash, an indentation, the sides
# of a table, the rank or actor that speaks.
_BREAK = expression(
    r"[ \t\r│┃|]{0,64}(?:\\{0,2}\r?\n|\\{1,4}n)(?:\[[^\[\]\n]{1,40}\]:? |\([^()\n]{1,80}\) )?[ \t│┃|]{0,256}"
)
# What may stand behind a text that was cut off, or between it and the end of its line, or of what a report quotes.
_LINE_ENDS = expression(r"[ \t\r\\.…\"']{0,64}(?:\n|\Z|”)")
_LONGEST_BEFORE = 64
# A user with so much of a password; code, addresses and names are no piece of a secret by their length alone.
_LOGIN = expression(rf"[\w.-]{{1,64}}:[^\s/:@]{{{_PIECE}}}")
_BEFORE = " \t.…\"'"

_known: dict[str, str] = {}
# Every form of a secret with its name.
_names: dict[str, str] = {}
_forms = Beginnings(_SHORTEST)
_heads, _backwards = Beginnings(_PIECE), Beginnings(_PIECE)
# How a form, or the last piece of a value, begins: each place of a text is looked up once, however many there are.
_begin: set[str] = set()


def remember(name: str, value: str) -> None:
    """Keeps a value in mind as the secret of this name; what is short or an ordinary word is removed under its name
    alone."""
    value = value.strip()
    if value in _known or not _SHORTEST <= len(value) <= _LONGEST or len(_known) >= _MOST or is_mark(value):
        return
    first, slash, _ = value.partition("/")
    if slash and _tells(first):  # a path goes on behind it
        remember(name, first)
    if not (_is_ordinary(value) or _is_a_name(value)):
        _keep(name, value)


def remember_phrase(name: str, words: Sequence[str]) -> None:
    """Keeps the words of a pass phrase in mind, together however ordinary they are, and without the first one, which
    programs take for the value when a shell divided them; of them each that is not ordinary."""
    for phrase in (" ".join(words), " ".join(words[1:])):
        if (
            " " in phrase
            and phrase not in _known
            and _SHORTEST_PHRASE <= len(phrase) <= _LONGEST
            and len(_known) < _MOST
        ):
            _keep(name, phrase)
    for word in words:
        remember(name, word)


def _keep(name: str, value: str) -> None:
    _known[value] = name
    for form in _written(value) - _names.keys():
        _names[form] = name
        _forms.add(form)
        _begin.add(form[:_SHORTEST])
    if len(value) >= 2 * _PIECE:
        if "\n" not in value[:_PIECE]:  # what stands at one end of a line
            _heads.add(value)
        if "\n" not in value[-_PIECE:]:
            _backwards.add(value[::-1])
            _begin.add(value[-_PIECE:][:_SHORTEST])


def _is_ordinary(value: str) -> bool:
    """A number, a short word or a path; base64 has slashes, too."""
    if not _ORDINARY.fullmatch(value):
        return False
    return len(value) < 12 or ("/" in value and (is_path(value) or not is_long_and_random(value)))


def _is_a_name(value: str) -> bool:
    """What programs and people write as names or phrases: ``wrong_key``, ``PatternMatcherPass``, ``head_2``."""
    if len(value) >= _LONGEST_NAME:
        return False
    return not any(character.isdigit() for character in value) or _NUMBERED.fullmatch(value) is not None


def _written(value: str) -> set[str]:
    """The ways in which programs write a value: quoted, escaped, percent-encoded, in base64, in one case."""
    import html  # few runs know a secret, and its table of names is large
    import json

    once = json.dumps(value)[1:-1]
    quoted = {repr(value)[1:-1], shlex.quote(value).removeprefix("'").removesuffix("'"), json.dumps(once)[1:-1]}
    encoded = {urllib.parse.quote(value, safe=""), urllib.parse.quote(value), urllib.parse.quote_plus(value)}
    cases = {value, value.upper(), value.lower()}
    return {*cases, once, html.escape(value), *quoted, *encoded, *_in_base64(value.encode("utf-8", "replace"))}


def _in_base64(value: bytes) -> Iterator[str]:
    """What base64 makes of a value wherever it stands in a longer text (``user:value``): it begins at one of three
    places of a group, and what it shares a group with changes its first and last digits."""
    for before in range(3):
        whole = len(value) + before
        digits = base64.b64encode(bytes(before) + value).decode()[(0, 2, 3)[before] : whole * 8 // 6]
        if len(digits) >= _SHORTEST_IN_BASE64:
            yield from (digits, digits.replace("+", "-").replace("/", "_"))


def forget_all() -> None:
    """Begins anew: for tests, and for a program that runs several commands."""
    for kept in (_known, _names, _forms, _heads, _backwards, _begin):
        kept.clear()


def count() -> int:
    """How many secrets are known."""
    return len(_known)


def find(text: str) -> Iterator[Span]:
    """Where remembered values stand in a text."""
    if not _known:
        return
    places = _places(text)
    yield from _whole(text, places)
    if "\n" in text or "\\n" in text:
        yield from _over_lines(text)
    yield from _cut_off(text, places)


def _places(text: str) -> list[int]:
    """Where something of a value may begin."""
    return [at for at in range(len(text) - _SHORTEST + 1) if text[at : at + _SHORTEST] in _begin]


def _whole(text: str, places: list[int]) -> Iterator[Span]:
    end = 0
    for start in places:
        if start >= end and (form := _forms.whole(text, start)):
            end = start + len(form)
            yield Span(start, end, _names[form])


def _over_lines(text: str) -> Iterator[Span]:
    """The parts of values that line breaks divide: found in the text without its breaks."""
    parts: list[str] = []
    # Where a break stood in the text without them, and how much was taken out of it up to there.
    places, taken = [], [0]
    position = length = 0
    for hit in _BREAK.finditer(text):
        parts.append(text[position : hit.start()])
        length += hit.start() - position
        places.append(length)
        taken.append(taken[-1] + hit.end() - hit.start())
        position = hit.end()
    parts.append(text[position:])
    joined = "".join(parts)
    for span in _whole(joined, _places(joined)):
        first, last = bisect_right(places, span.start), bisect_left(places, span.end)
        edges = [span.start, *places[first:last], span.end]
        for number, (start, end) in enumerate(itertools.pairwise(edges) if len(edges) > 2 else ()):
            before = taken[first + number]
            yield Span(start + before, end + before, span.name)


def _cut_off(text: str, places: list[int]) -> Iterator[Span]:
    """The beginning of a value at the end of a line, and its end at the beginning of one; elsewhere, too, where so much
    of it is there that it is no word of its own."""
    end = 0
    for start in places:
        if start < end or not (found := _heads.begun(text, start)):
            continue
        value, length = found
        stop = start + len(text[start : start + length].rstrip())
        if _LINE_ENDS.match(text, stop) or _tells(text[start:stop]):
            end = stop
            yield Span(start, stop, _known[value])
    first = len(text)
    for place in reversed(places):
        stop = place + _PIECE
        if stop > first or not (found := _backwards.begun(text[max(0, stop - _LONGEST) : stop][::-1], 0)):
            continue
        backwards, length = found
        start = stop - len(text[stop - length : stop].lstrip())
        before = text[max(0, start - _LONGEST_BEFORE) : start].rpartition("\n")[2].rpartition("“")[2]
        if not before.strip(_BEFORE) or _tells(text[start:stop]):
            first = start
            yield Span(start, stop, _known[backwards[::-1]])


def _tells(piece: str) -> bool:
    first = piece[:_LONGEST_BEFORE]
    mixed = len(piece) >= _TELLING and any(map(str.isdigit, first)) and any(map(str.isalpha, first))
    return mixed or _LOGIN.match(piece) is not None
