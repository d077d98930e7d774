"""What a layer is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rldoctor.logs.liveness import is_progress
from rldoctor.logs.prefixes import parse
from rldoctor.records import dataclass

Strip = Callable[[bytes], bytes]
"""Takes a layer off a piece of text that ends at a line end."""

# Lines that are looked at.
MOST_LINES = 2000
# A layer is around nearly all lines, or it is none.
MOST = 0.75
# What reStructuredText has below a heading.
UNDERLINE = re.compile(rb"[=~^*-]{3,}\s*$")


@dataclass(frozen=True)
class Layer:
    """``learn`` says for the first lines of a file how the layer is taken off, or None where it is not there."""

    name: str
    learn: Callable[[Sequence[bytes]], Strip | None]


def lines_of(sample: bytes) -> list[bytes]:
    """The lines of a sample without their ends; the last one may be cut off and is left out where there are others."""
    lines = [line.rstrip(b"\r") for line in sample.split(b"\n")[: MOST_LINES + 1]]
    return lines[:-1] if len(lines) > 1 else lines


def emptied(text: bytes) -> bytes:
    """As many lines, with nothing on them, so that the others keep their numbers."""
    return b"\n" * text.count(b"\n")


def of_program(raw: bytes) -> bool:
    """Whether a program wrote a line, and nobody who speaks of one."""
    line = parse(raw.decode("utf-8", "replace"))
    said = line.level or line.tag or line.origin.rank or line.origin.pid or "%|" in line.text
    return bool(said) or is_progress(line) or line.text.startswith("Traceback (most recent call last)")
