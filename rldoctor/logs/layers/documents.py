"""Layers of documents: colours that lost their escape character, quotation marks of mails, and the fences of
Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from rldoctor.logs.layers.layer import Strip
from rldoctor.logs.liveness import is_progress
from rldoctor.logs.prefixes import parse

# ESC written out, as a caret or lost.
_COLOUR = re.compile(rb"(?:\\x1b|\\u001b|\\033|\\e|\^\[|\xe2\x90\x9b|(?<!\x1b))\[(?:\d{1,3}(?:;\d{1,3}){0,4})m")
_RESET = re.compile(rb"(?<!\x1b)\[(?:0|22|24|27|39|49)m")
_FEWEST = 2
_ENTITY = re.compile(rb"&(?:quot|lt|gt|amp|apos|#x?[0-9a-fA-F]{1,5});")
_TAGS = re.compile(rb"\s*(?:</?[a-z]{1,10}[^<>]{0,100}>\s*)+$")
# What stands in nearly every log, and never in the text of a page.
_MARKUP = re.compile(rb'["<>]')
_FENCE = re.compile(
    rb"(?m)^[ \t]*(?:\x1b\[[0-9;]*m)*(?:```+[ \t]*[\w+.{}-]*|~~~+[ \t]*[\w+-]*|"
    rb"</?(?:details|summary|pre|code)>)[ \t\r]*(?:\x1b\[[0-9;]*m)*$"
)
_FARTHEST = 60
# Among other lines, so many that are quoted are a quotation. A Python prompt is none.
_FEWEST_QUOTED = 4
_QUOTED = re.compile(rb"[ \t]*>(?!>>)[ ]?")
_QUOTED_EACH = re.compile(rb"(?m)^[ \t]*>(?!>>)[ ]?")


def lost_escapes(lines: Sequence[bytes]) -> Strip | None:
    """Colours as they are pasted: ``[36m(Worker pid=1)[0m``."""
    if sum(1 for line in lines if _RESET.search(line)) < _FEWEST:
        return None
    return lambda text: _COLOUR.sub(b"", text)


def quoted(lines: Sequence[bytes]) -> Strip | None:
    """A log that was answered to: its lines, however few they are, are quoted as mails do. Of what stands before or
    behind the quotation no program has written anything."""
    written = [line for line in lines if line.strip()]
    marked = [i for i, line in enumerate(written) if _QUOTED.match(line)]
    if not marked:
        return None
    first, last = marked[0], marked[-1]
    around = written[:first] + written[last + 1 :]
    if len(marked) != last - first + 1 or (around and len(marked) < _FEWEST_QUOTED):
        return None
    return None if any(_of_program(line) for line in around) else lambda text: _QUOTED_EACH.sub(b"", text)


def entities(lines: Sequence[bytes]) -> Strip | None:
    """The text of a web page, with what HTML writes for quotation marks and brackets. A page that a run shows as a
    sample has quotation marks of its own around it."""
    written = sum(1 for line in lines if _ENTITY.search(line))
    bare = sum(1 for line in lines if _MARKUP.search(line) and not _TAGS.match(line))
    return _without_entities if written >= _FEWEST and written > bare else None


def _without_entities(text: bytes) -> bytes:
    return b"\n".join(
        html.unescape(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if b"&" in line
        else line
        for line in text.split(b"\n")
    )


def fences(lines: Sequence[bytes]) -> Strip | None:
    """A log between fences, as in an issue: before the first one no program has written anything. A fence further down
    belongs to a sample that the run shows."""
    first = next((i for i, line in enumerate(lines[:_FARTHEST]) if _FENCE.match(line)), None)
    if first is None or any(_of_program(line) for line in lines[:first]):
        return None
    return lambda text: _FENCE.sub(b"", text)


def _of_program(raw: bytes) -> bool:
    line = parse(raw.decode("utf-8", "replace"))
    said = line.level or line.tag or line.origin.rank or line.origin.pid or "%|" in line.text
    return bool(said) or is_progress(line) or line.text.startswith("Traceback (most recent call last)")
