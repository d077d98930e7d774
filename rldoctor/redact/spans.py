"""Stretches of a text that are to be removed."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from rldoctor.records import dataclass
from rldoctor.redact.marks import mark

# The name of what only looks like a secret; any other name for it says more.
LAST_RESORT = "random"
_IN_ORDER = attrgetter("start", "end", "name")


@dataclass(frozen=True)
class Span:
    """The characters from ``start`` up to ``end``, and the name of what they hold."""

    start: int
    end: int
    name: str


def cut(text: str, spans: Iterable[Span]) -> str:
    """The text with a mark in place of each stretch; of stretches that overlap the first one names the whole. A stretch
    over several lines leaves as many lines."""
    parts: list[str] = []
    position = 0
    for span in merged(spans):
        taken = text[span.start : span.end]
        parts += [text[position : span.start], "\n".join([mark(span.name)] * (taken.count("\n") + 1))]
        position = span.end
    return "".join([*parts, text[position:]])


def merged(spans: Iterable[Span]) -> list[Span]:
    """Stretches in their order, none of which touches another."""
    found: list[Span] = []
    for span in sorted(spans, key=_IN_ORDER):
        if span.start == span.end:
            continue
        if found and span.start < found[-1].end:
            name = found[-1].name if found[-1].name != LAST_RESORT else span.name
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end), name)
        else:
            found.append(span)
    return found
