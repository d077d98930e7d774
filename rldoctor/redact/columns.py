"""Secrets in the columns of a table: a row of names, and rows of values below it, as CSV, Markdown and databases write
them."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.expressions import expression
from rldoctor.redact.names import is_digest, is_password, is_secret_option, looks_drawn, looks_made, says_of_it, words
from rldoctor.redact.spans import Span

_SIGNS = expression(r"(?i:pass|pw|key|token|secret|auth|cookie|credential|webhook|jwt|dsn)[^\n]{0,200}\n")
# What divides columns, and the name of one.
_BETWEEN = expression(r"[,;\t|│┃]")
_NAME = expression(r"(?:[A-Za-z_][\w. -]{0,60})?")
_OPENING = expression(r"[^\"'\n]{0,80}[\"'](?:\w{1,40}[\"']:[ ]{0,4}[\"'])?")
_QUOTED = expression(r"\"(?:[^\"\n]|\"\"){0,4096}\"")
_LONGEST, _MOST = 8192, 64
_SHORTEST = 4
# A line between the names and the values.
_RULE = expression(r"[\s>|│┃+:=├┼┤─━-]+")
_MARGIN = " \t>+|│┃\"'}]"


def find(text: str) -> Iterator[Span]:
    """Where values stand below their names."""
    if not _SIGNS.search(text):
        return
    secret: dict[int, str] = {}
    between, columns = "", 0
    for start, line in _lines(text):
        if secret and _RULE.fullmatch(line):
            continue
        cells = _cells(line, between) if secret else []
        if len(cells) == columns and secret:
            for column, name in secret.items():
                first, last = cells[column]
                if _is_one(name, line[first:last]):
                    yield Span(start + first, start + last, name)
            continue
        secret = {}
        for at in _beginnings(line):
            if (gap := _BETWEEN.search(line, at)) and (secret := _secret_columns(line[at:])):
                between = gap[0]
                columns = line.count(between, at) + 1
                break


def _secret_columns(header: str) -> dict[int, str]:
    """The columns that hold secrets by their names, of a line that has nothing but names."""
    between = _BETWEEN.search(header)
    if between is None or not _SIGNS.search(f"{header}\n"):
        return {}
    names = [header[first:last] for first, last in _cells(header, between[0])]
    # A list in a program's source has a comma behind its last name, too.
    is_a_list = between[0] == "," and not names[-1]
    # A frame around a line makes no columns of it.
    if len(names) > _MOST or is_a_list or sum(map(bool, names)) < 2 or not all(map(_NAME.fullmatch, names)):
        return {}
    return {at: name for at, name in enumerate(names) if is_secret_option(name, "open sesame")}


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start : min(end, start + _LONGEST)]
        start = end + 1


def _beginnings(line: str) -> Iterator[int]:
    """Where a table may begin: with the line; in JSON, behind a quote."""
    yield 0
    if (opening := _OPENING.match(line)) is not None:
        yield opening.end()
    yield max(line.rfind('"'), line.rfind("'")) + 1


def _cells(line: str, between: str) -> list[tuple[int, int]]:
    """Where the cells of a row stand, without quotes and what surrounds them."""
    blanked = _QUOTED.sub(lambda found: "x" * len(found[0]), line) if '"' in line else line
    cells, start = [], 0
    for part in blanked.split(between):
        held = line[start : start + len(part)].rstrip("\r")
        kept = held.strip(_MARGIN)
        first = start + held.find(kept)
        cells.append((first, first + len(kept)))
        start += len(part) + len(between)
    return cells


def _is_one(name: str, value: str) -> bool:
    if not is_secret_option(name, value):
        return False
    if is_password(name) and words(name) != ["pass"]:
        return len(value) >= _SHORTEST and not says_of_it(value) and not is_secret_option(value, value)
    return looks_made(value) if words(name) != ["token"] else looks_drawn(value) or is_digest(value)
