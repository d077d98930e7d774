"""Values once known as secrets, for as long as the process lives: they are removed wherever they appear again, also
escaped, and where a line breaks them in two."""

from __future__ import annotations

import html
import json
import re
import urllib.parse
from collections.abc import Iterator

from rldoctor.redact.marks import is_mark
from rldoctor.redact.spans import Span

_SHORTEST = 6
# So much of a secret at the end of a line, or at the beginning of the next, is a piece of it.
_PIECE = 8
_MOST = 1000
_LONGEST = 8192
_ORDINARY = re.compile(r"[\d.]+|[a-z]+|[A-Z]+|(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?")

_known: dict[str, str] = {}
_pattern: re.Pattern[str] | None = None
_names: dict[str, str] = {}
_pieces: dict[str, list[str]] = {}


def remember(name: str, value: str) -> None:
    """Keeps a value in mind as the secret of this name; what is short or an ordinary word is removed under its name
    alone."""
    global _pattern
    value = value.strip()
    if value in _known or not _SHORTEST <= len(value) <= _LONGEST or len(_known) >= _MOST or is_mark(value):
        return
    if _ORDINARY.fullmatch(value) and (len(value) < 12 or "/" in value):
        return
    _known[value] = name
    escaped = (json.dumps(value)[1:-1], repr(value)[1:-1], urllib.parse.quote(value, safe=""), html.escape(value))
    for form in (value, *escaped):
        _names.setdefault(form, name)
    if len(value) >= 2 * _PIECE:
        _pieces.setdefault(value[:_PIECE], []).append(value)
        _pieces.setdefault(value[-_PIECE:], []).append(value)
    _pattern = None


def forget_all() -> None:
    """Begins anew: for tests, and for a program that runs several commands."""
    global _pattern
    for kept in (_known, _names, _pieces):
        kept.clear()
    _pattern = None


def count() -> int:
    """How many secrets are known."""
    return len(_known)


def find(text: str) -> Iterator[Span]:
    """Where remembered values stand in a text."""
    global _pattern
    if not _known:
        return
    if _pattern is None:
        _pattern = re.compile("|".join(map(re.escape, sorted(_names, key=len, reverse=True))))
    for hit in _pattern.finditer(text):
        yield Span(hit.start(), hit.end(), _names[hit[0]])
    for piece, values in _pieces.items():
        if piece in text:
            for value in values:
                yield from _broken(text, value)


def _broken(text: str, value: str) -> Iterator[Span]:
    """The pieces of a value at the edges of lines."""
    start = 0
    for line in text.split("\n"):
        stripped = line.rstrip(" \t\r\\")
        for length in range(min(len(value) - 1, len(stripped)), _PIECE - 1, -1):
            if stripped.endswith(value[:length]):
                yield Span(start + len(stripped) - length, start + len(stripped), _known[value])
                break
        indent = len(line) - len(line.lstrip())
        for length in range(min(len(value) - 1, len(line) - indent), _PIECE - 1, -1):
            if line.startswith(value[-length:], indent):
                yield Span(start + indent, start + indent + length, _known[value])
                break
        start += len(line) + 1
