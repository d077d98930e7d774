"""JSON that a launcher reads as it stands and refuses otherwise: a comma too many or too few, single quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from rldoctor.formats.shell.reader import Word
from rldoctor.formats.values import Unresolved
from rldoctor.plan.model import Form, RefusedValue

# Stands for what is not known: within a text it is text.
_UNKNOWN = "0"
_AROUND = 30
_VALUE = re.compile(r'(:\s*)"((?:[^"\\]|\\.)*)"')


def refused_json(words: Sequence[Word], option: str, owner: str, file: str) -> RefusedValue | None:
    """The value of ``option`` among the words as one that is no JSON, or None where it is, where it is not given, or
    where nobody can say: an unknown that does not stand within a text may be anything."""
    word, text = _given(words, option)
    if word is None or text is None:
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # The texts may be secrets, and a cut name no longer tells.
        hidden = _VALUE.sub(lambda found: f'{found[1]}"{"." * len(found[2])}"', text)
        shown = " ".join(hidden[max(0, error.pos - _AROUND) : error.pos + _AROUND].split())
        return RefusedValue(
            key=option,
            value=f"at `{shown}` ({error.msg[:1].lower()}{error.msg[1:]})",
            file=word.file or file,
            line=word.line,
            form=Form.OPTION,
            owner=owner,
            takes="valid JSON",
        )
    except RecursionError:
        return None
    return None


def _given(words: Sequence[Word], option: str) -> tuple[Word | None, str | None]:
    """The word that holds the last value of the option, and its text."""
    found: tuple[Word | None, str | None] = None, None
    for word, after in zip(words, (*words[1:], None), strict=False):
        text = _text(word)
        if text == option and after is not None:
            found = after, _text(after)
        elif text is not None and text.startswith(f"{option}="):
            found = word, text.removeprefix(f"{option}=")
    return found


def _text(word: Word) -> str | None:
    """The word's text with :data:`_UNKNOWN` for what is not known within a JSON text, None where that stands
    elsewhere."""
    if not isinstance(word.value, Unresolved):
        return word.value
    text = ""
    for piece in word.pieces:
        known = None if piece.many or isinstance(piece.text, Unresolved) else piece.text
        if known is None and not _within_text(text):
            return None
        text += _UNKNOWN if known is None else known
    return text if word.pieces else None


def _within_text(before: str) -> bool:
    """Whether a JSON text is open at the end of ``before``."""
    opened = escaped = False
    for letter in before:
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = opened
        elif letter == '"':
            opened = not opened
    return opened
