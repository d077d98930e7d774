"""A log inside of one JSON object: the outputs of a notebook, a service's answer on a job that failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

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
    except (ValueError, RecursionError):
        return held
    texts = [text.rstrip("\n") + "\n" for text in _texts(whole)]
    return "".join(texts).encode("utf-8", "replace") or held


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
