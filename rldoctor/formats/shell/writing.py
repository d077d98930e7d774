"""Writes a text as a shell word, in the manner of the word that stands there."""

from __future__ import annotations

import re

from rldoctor.formats.shell.reader import Word
from rldoctor.formats.texts import shell_quoted
from rldoctor.formats.write import CannotEdit


def value_quote(word: Word) -> str:
    value = word.raw.partition("=")[2]
    return value[:1] if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1 else ""


def requote(text: str, word: Word) -> str:
    return quote(text, word, word.raw[:1])


def quote(text: str, word: Word, style: str = "") -> str:
    """``text`` as a shell word: in the quotes that stood there, else as plainly as it can be written; never with the
    quotes that surround the whole command."""
    if word.inside:
        unsafe = {"'": "'", '"': '"$`\\'}[word.inside]
        plain = re.fullmatch(r"[\w./:@%+=,-]+", text) is not None
        other = '"' if word.inside == "'" else "'"
        if any(mark in text for mark in unsafe) or (not plain and other in text):
            raise CannotEdit(f"{text} cannot be written inside the quotes of line {word.line}")
        return text if plain else f"{other}{text}{other}"
    if style == "'" and "'" not in text:
        return f"'{text}'"
    if style == '"' and not re.search(r'["$`\\!]', text):
        return f'"{text}"'
    return shell_quoted(text)
