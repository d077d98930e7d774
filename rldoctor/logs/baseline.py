"""What a healthy run writes: the kinds of lines in its log, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

from rldoctor.errors import InputError
from rldoctor.logs.encodings import text_of
from rldoctor.logs.prefixes import parse
from rldoctor.logs.sources import Source, sources_of
from rldoctor.logs.templates import template, words

# About 40 MB; a trainer and an engine write a few thousand kinds of lines, samples that they show the rest.
MOST_TEMPLATES = 300_000
_MOST_WORDS = 200_000
# Lines that differ in digits only are taken apart once; so many of them are remembered.
_MOST_SHAPES = 300_000
_LONGEST_LINE = 4096


class Baseline:
    """The templates of all lines of some logs and the words in them. ``full`` tells that there were more of them than
    are kept."""

    def __init__(self) -> None:
        self.full = False
        self._templates: set[int] = set()
        self._words: set[str] = set()
        self._shapes: set[int] = set()

    def __len__(self) -> int:
        return len(self._templates)

    def add(self, data: bytes) -> None:
        """Takes whole lines of a log."""
        if self.full:
            return
        for shape, raw in shapes(data).items():
            key = hash(shape)
            if key not in self._shapes:
                if len(self._shapes) >= _MOST_SHAPES:
                    self._shapes.clear()
                self._shapes.add(key)
                self._learn(template(parse(text_of(raw[:_LONGEST_LINE])).text))

    def knows(self, kind: str) -> bool:
        """Whether a line of that template was there."""
        return hash(kind) in self._templates

    def unheard(self, kind: str) -> float:
        """The share of a template's words, from 0 to 1, that no line had."""
        said = words(kind)
        return len(said - self._words) / len(said) if said else 0.0

    def _learn(self, kind: str) -> None:
        if len(self._templates) >= MOST_TEMPLATES:
            self.full = True
            return
        self._templates.add(hash(kind))
        if len(self._words) < _MOST_WORDS:
            self._words |= words(kind)


def shapes(data: bytes) -> dict[bytes, bytes]:
    """One line for each that differs from the others in more than digits: without its digits, and as it stands. Done on
    the whole block at once, for most lines of a long log differ in digits only."""
    data = data.replace(b"\r", b"\n")
    return dict(zip(data.translate(None, b"0123456789").split(b"\n"), data.split(b"\n"), strict=True))


def read_baseline(paths: Sequence[str]) -> tuple[Baseline, list[str]]:
    """What the logs of a healthy run hold, and notes on it.

    Raises :class:`InputError` for a path that holds no text; of a folder's files one is enough."""
    try:
        found, notes = sources_of(paths)
    except InputError as error:
        raise InputError(f"--baseline: {error}") from None
    baseline = Baseline()
    for source in found:
        try:
            _learn(source, baseline)
        except InputError as error:
            if source.name in paths or len(found) == 1:
                raise InputError(f"--baseline: {error}") from None
            notes.append(str(error))
    if not len(baseline):
        raise InputError(f"--baseline: {', '.join(paths)} holds no log")
    notes += [f"{source.name}: {source.partial}" for source in found if source.partial]
    if baseline.full:
        notes.append(f"more than {MOST_TEMPLATES} kinds of lines: what is behind them was not compared")
    return baseline, [f"baseline: {note}" for note in notes]


def _learn(source: Source, baseline: Baseline) -> None:
    for block in source.blocks():
        baseline.add(block.data)
