"""A log inside of one JSON object: the outputs of a notebook, a service's answer on a job that failed, what a store of
logs answers to a query."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from rldoctor.logs.layers.records import is_record
from rldoctor.logs.quoting import FIELDS_OF_SAMPLES

Read = Callable[[], bytes]

# What is larger stays as it is, and is never held.
_HELD = 8 << 20
# The fields in which programs keep what others wrote; samples have other ones.
_FIELDS = frozenset(
    {"log", "logs", "error", "errors", "message", "msg", "stderr", "stdout", "output", "outputs", "text", "traceback",
     "stack", "stack_trace", "stacktrace", "exception", "detail", "details", "reason", "body", "content", "tail"}
)  # fmt: skip
_FEWEST_LINES = 2


def unfolded(first: bytes, read: Read) -> tuple[bytes, Read]:
    """The beginning of a text and how more of it is read; of one JSON object the texts of several lines in it."""
    if not first.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
        return first, read
    line, _, rest = first.lstrip().partition(b"\n")
    if rest.strip() and line.rstrip().endswith(b"}"):
        return first, read  # an object a line
    held = first
    while len(held) <= _HELD:
        more = read()
        if not more:
            return _texts_of(held), lambda: b""
        held += more
    return held, read


def _texts_of(held: bytes) -> bytes:
    try:
        whole = json.loads(held.decode("utf-8-sig", "replace"))
        found = _records(whole)
        if found:
            return json.dumps(found).encode()
        texts = [text.rstrip("\n") + "\n" for text in _texts(whole)]
    except (ValueError, RecursionError):
        return held
    return "".join(texts).encode("utf-8", "replace") or held


def _records(held: Any) -> list[Any]:
    """The first list of log records: Loki's streams, Elasticsearch's hits, CloudWatch's events, Cloud Logging's
    entries."""
    if isinstance(held, list):
        records = held if all(isinstance(part, dict) and is_record(part) for part in held) else []
        return [record for part in records for record in _of_stream(part)]
    if not isinstance(held, dict) or FIELDS_OF_SAMPLES & held.keys():
        return []
    return next((found for part in held.values() if (found := _records(part))), [])


def _of_stream(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The record itself; of one of Loki's streams, which holds thousands of lines, a record for each."""
    stream, values = record.get("stream"), record.get("values")
    if not isinstance(stream, dict) or not isinstance(values, list):
        return [record]
    if not all(isinstance(value, list) and len(value) > 1 for value in values):
        return [record]
    return [{"time": value[0], "line": value[1], "labels": stream} for value in values]


def _texts(held: Any) -> Iterator[str]:
    """The texts of several lines in the order in which they stand, those with a line an element joined."""
    if isinstance(held, list):
        for part in held:
            yield from _texts(part)
    elif isinstance(held, dict) and not FIELDS_OF_SAMPLES & held.keys():
        for name, part in held.items():
            text = _joined(part) if name.lower() in _FIELDS else None
            if text is not None:
                yield text
            else:
                yield from _texts(part)


def _joined(part: Any) -> str | None:
    if isinstance(part, list) and part and all(isinstance(line, str) for line in part):
        ended = all(line.endswith("\n") for line in part[:-1])
        part = ("" if ended else "\n").join(part)
    return part if isinstance(part, str) and part.count("\n") >= _FEWEST_LINES else None
