"""A log that was exported as a table with commas (Kibana, CloudWatch, Datadog, Grafana): its rows as JSON records, one
a line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator

from rldoctor.logs.layers.records import is_record

Read = Callable[[], bytes]

_FEWEST_COLUMNS, _MOST_COLUMNS = 2, 40
_LONGEST_HEADER = 1000
_PIECE = 1 << 20


def unrolled(first: bytes, read: Read) -> tuple[bytes, Read]:
    """The beginning of a text and how more of it is read; of a table of log records, its records with a line each."""
    columns = _columns(first)
    if not columns or len(first.split(b"\n", 2)) < 3:
        return first, read
    sample = next(_rows(iter([first.decode("utf-8", "replace")]), columns), None)
    if sample is None or not is_record(sample):
        return first, read

    def texts() -> Iterator[str]:
        yield first.decode("utf-8", "replace")
        while more := read():
            yield more.decode("utf-8", "replace")

    rows = _rows(texts(), columns)
    return _piece(rows), lambda: _piece(rows)


def _columns(first: bytes) -> list[str]:
    """The names in the first line, in small letters; none where it is no header of a table."""
    line = first.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].rstrip(b"\r")
    if b"," not in line or len(line) > _LONGEST_HEADER:
        return []
    try:
        names = [name.strip().lower() for name in next(csv.reader([line.decode("utf-8", "replace")]), [])]
    except csv.Error:  # a carriage return in between
        return []
    fits = _FEWEST_COLUMNS <= len(names) <= _MOST_COLUMNS and len(set(names)) == len(names) and all(names)
    return names if fits else []


def _rows(texts: Iterator[str], columns: list[str]) -> Iterator[dict[str, str]]:
    """The rows behind the header. What the reader refuses is handed on as the text of a row."""
    reader = csv.reader(_lines(texts))
    next(reader, None)
    while True:
        try:
            row = next(reader, None)
        except csv.Error:  # a field that is longer than any
            continue
        if row is None:
            return
        if row:
            yield dict(zip(columns, row, strict=False))


def _lines(texts: Iterator[str]) -> Iterator[str]:
    """Lines with their ends, over the places where one text ends and the next begins."""
    held = ""
    for text in texts:
        *whole, held = (held + text).split("\n")
        yield from (line + "\n" for line in whole)
    if held:
        yield held


def _piece(rows: Iterator[dict[str, str]]) -> bytes:
    """About a mebibyte of rows."""
    held, size = io.StringIO(), 0
    for row in rows:
        size += held.write(json.dumps(row, ensure_ascii=False) + "\n")
        if size > _PIECE:
            break
    return held.getvalue().encode("utf-8", "replace")
