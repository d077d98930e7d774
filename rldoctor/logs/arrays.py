"""A log that was exported as one JSON array: its records, one a line, in order of their times; or its lines, as
texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from rldoctor.logs.forms import names_function
from rldoctor.logs.layers.layer import of_program
from rldoctor.logs.layers.records import is_record, time_of

Read = Callable[[], bytes]

_BEGINS = re.compile(r"\s*\[\s*(?=\{)")
_STRINGS = re.compile(r"\s*\[\s*(?=\")")
_FEWEST_STRINGS = 4
_BETWEEN = re.compile(r"[\s,]*")
# Consoles export the newest record first. What is larger stays in the order in which it stands, and is never held.
_SORTED = 8 << 20
_PIECE = 1 << 20


def unrolled(first: bytes, read: Read) -> tuple[bytes, Read]:
    """The beginning of a text and how more of it is read; of an array of log records, its records with a line each."""
    head = first[:4096].decode("utf-8", "replace")
    if _STRINGS.match(head) is not None:
        return _texts(first, read)
    if _BEGINS.match(head) is None:
        return first, read
    held, ended = _held(first, read)
    rest = _Rest(held.decode("utf-8", "replace"), read if not ended else lambda: b"")
    records = rest.records()
    one = next(records, None)
    if one is None or not is_record(one[0]):
        return held, (lambda: b"") if ended else read
    if ended:
        timed = [(time_of(entry) or "", line) for entry, line in chain([one], records)]
        timed.sort(key=lambda record: record[0])
        return _lines(line for _, line in timed) + rest.text[rest.at :].lstrip("\r\n\t ]").encode(), lambda: b""
    return _lines([one[1]]), lambda: _lines(line for _, line in rest.piece(records))


def _held(first: bytes, read: Read) -> tuple[bytes, bool]:
    """As much of a text as may be held, and whether that is all of it."""
    held, ended = first, False
    while len(held) <= _SORTED and not ended:
        more = read()
        ended = not more
        held += more
    return held, ended


def _texts(first: bytes, read: Read) -> tuple[bytes, Read]:
    """Of an array of nothing but lines, among them what a program wrote, each line. A prompt has several."""
    held, ended = _held(first, read)
    try:
        entries = json.loads(held) if ended else None
    except (ValueError, RecursionError):
        entries = None
    if isinstance(entries, list) and len(entries) >= _FEWEST_STRINGS and all(isinstance(e, str) for e in entries):
        texts = [entry.rstrip("\r\n") for entry in entries]
        lines = [text.encode("utf-8", "replace") for text in texts]
        if not any(b"\n" in line for line in lines) and any(map(_is_logged, lines, texts)):
            return b"\n".join(lines) + b"\n", lambda: b""
    return held, (lambda: b"") if ended else read


def _is_logged(line: bytes, text: str) -> bool:
    return of_program(line) or names_function(text)


class _Rest:
    """The text of an array that was not read yet."""

    def __init__(self, text: str, read: Read) -> None:
        self.text = text
        self.read = read
        begin = _BEGINS.match(text)
        self.at = begin.end() if begin is not None else 0

    def records(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Every record with its text in one line, up to the end of the array or what is no record."""
        decoder = json.JSONDecoder()
        while True:
            between = _BETWEEN.match(self.text, self.at)
            self.at = between.end() if between is not None else self.at
            try:
                entry, end = decoder.raw_decode(self.text, self.at)
            except RecursionError:
                return
            except ValueError:
                # A record may be cut off here; one that is longer than a piece is none.
                more = self.read() if len(self.text) - self.at < _PIECE or self.at else b""
                if not more or self.text[self.at : self.at + 1] == "]":
                    return
                self.text, self.at = self.text[self.at :] + more.decode("utf-8", "replace"), 0
                continue
            if not isinstance(entry, dict):
                return
            yield entry, self.text[self.at : end].replace("\r", " ").replace("\n", " ")
            self.at = end

    @staticmethod
    def piece(records: Iterator[tuple[dict[str, Any], str]]) -> Iterator[tuple[dict[str, Any], str]]:
        """About a mebibyte of them."""
        size = 0
        for record in records:
            yield record
            size += len(record[1])
            if size > _PIECE:
                return


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode("utf-8", "replace")
