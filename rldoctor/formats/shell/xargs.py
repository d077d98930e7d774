"""The commands that ``xargs`` makes of what it reads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rldoctor.formats.shell.expand import Expander
from rldoctor.formats.shell.reader import Piece, Word
from rldoctor.formats.values import Unresolved
from rldoctor.records import dataclass

MAX_RUNS = 16
# More words than any launch has.
MAX_WORDS = 4096
# Options that change neither what is started nor with which words.
_FLAGS = re.compile(r"-[rtxpo]+|--no-run-if-empty|--verbose|--exit")
_VALUED = re.compile(r"(?:-([IindPLl0])|--(replace|max-args|delimiter|max-procs|max-lines|null))=?(.*)")
_SHORT = {
    "replace": "I", "i": "I", "max-args": "n", "delimiter": "d", "max-procs": "P", "max-lines": "L", "l": "L",
    "null": "0",
}  # fmt: skip
# What holds where the option has no value right behind it; others take the next word.
_IMPLIED = {"replace": "{}", "i": "{}", "max-lines": "1", "l": "1", "null": "", "0": ""}
_UNKNOWN = Unresolved("$(xargs)", "what xargs reads is not known")


@dataclass(frozen=True)
class Runs:
    """The words of each command, and whether they run side by side."""

    commands: list[list[Word]]
    abreast: bool = False


def runs(expander: Expander, words: Sequence[Word], given: str | None) -> Runs | None:
    """What ``xargs`` starts with ``given`` as its input, None where that is not known; None where it starts nothing, or
    has options that are not read."""
    options: dict[str, str] = {}
    rest = list(words[1:])
    while rest and rest[0].text.startswith("-"):
        text = rest.pop(0).text
        found = _VALUED.fullmatch(text)
        if found is None and _FLAGS.fullmatch(text) is None:
            return None
        if found is not None:
            name = found[1] or found[2]
            value = found[3] or (_IMPLIED[name] if name in _IMPLIED else rest.pop(0).text if rest else "")
            options[_SHORT.get(name, name)] = value
    if not rest:
        return None
    abreast = options.get("P", "1") != "1"
    items = _items(given, options)
    mark = options.get("I")
    most = "1" if mark is not None else options.get("n") or options.get("L") or ""
    size = int(most) if re.fullmatch(r"[1-9]\d{0,5}", most) else MAX_WORDS
    parts = [] if items is None else [items[at : at + size] for at in range(0, len(items), size)]
    if items is None or len(parts) > MAX_RUNS or len(items) > MAX_WORDS:
        return Runs([_unread(expander, rest, mark or "")])
    if mark is not None:
        return Runs([[_filled(expander, word, mark, item) for word in rest] for (item,) in items], abreast)
    line = rest[0].line
    return Runs(
        [[*rest, *(_word(expander, word, line) for item in part for word in item)] for part in parts or [[]]], abreast
    )


def _items(given: str | None, options: dict[str, str]) -> list[list[str]] | None:
    """The words of what is counted: lines or words."""
    if given is None:
        return None
    sign = {"\\n": "\n", "\\t": "\t", "\\0": "\0"}.get(options.get("d", ""), options.get("d"))
    if "0" in options or sign is not None:
        return [[item] for item in given.removesuffix(sign or "\0").split(sign or "\0")]
    rows = [row.lstrip() for row in given.splitlines() if row.strip()]
    if "I" in options:
        return [[row] for row in rows]
    try:
        # A line that ends with a blank goes on in the next one.
        if "L" in options:
            return None if any(row[-1].isspace() for row in rows) else [shlex.split(row) for row in rows]
        return [[word] for word in shlex.split(given)]
    except ValueError:
        return None


def _unread(expander: Expander, words: list[Word], mark: str) -> list[Word]:
    if mark:
        return [_filled(expander, word, mark, _UNKNOWN) for word in words]
    any_number = Piece(_UNKNOWN, words[0].line, many=True, file=expander.file)
    return [*words, expander.join([any_number], _UNKNOWN.raw, words[0].line, -1, -1)]


def _word(expander: Expander, text: str, line: int) -> Word:
    return expander.join([expander.piece(text, line)], text, line, -1, -1)


def _filled(expander: Expander, word: Word, mark: str, text: str | Unresolved) -> Word:
    """A word with what is read where its mark stands."""
    if mark not in word.text:
        return word
    pieces = list(_pieces(word, mark, text))
    return replace(expander.join(pieces, word.raw, word.line, -1, -1), file=word.file)


def _pieces(word: Word, mark: str, text: str | Unresolved) -> Iterator[Piece]:
    pieces = word.pieces or (Piece(word.value, word.line),)
    # The grammar may cut a word within its mark.
    for known, group in groupby(pieces, key=lambda piece: isinstance(piece.text, str)):
        if not known:
            yield from group
            continue
        whole = "".join(piece.text for piece in group if isinstance(piece.text, str))
        for index, part in enumerate(whole.split(mark)):
            if index:
                yield Piece(text, word.line, file=word.file)
            yield Piece(part, word.line, file=word.file)
