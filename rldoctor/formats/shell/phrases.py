"""The words that a shell makes of a secret that stands without quotes: nobody can tell from one of them what it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rldoctor import redact
from rldoctor.formats.shell.reader import Word

# $NAME alone, or behind key=
_EXPANDED = re.compile(r"(?:(?P<key>[-+\w.]{1,128})=)?\$(?:\{(?P<braced>\w+)\}|(?P<name>\w+))")
_OPTION = re.compile(r"-|[\w.+~]+=")


def without_phrase(before: Sequence[Word], written: str, words: list[Word]) -> list[Word]:
    """The words that one word of a script becomes, with marks in place of those of a pass phrase: what a variable with
    the name of a secret holds, and what stands behind an option with one. Options in such a variable stay."""
    expanded = _EXPANDED.fullmatch(written) if len(words) > 1 else None
    if expanded is None or any(word.open for word in words):
        return words
    texts = [word.text for word in words]
    key = expanded["key"]
    if key:
        texts[0] = texts[0].removeprefix(f"{key}=")
    option = key or (before[-1].text if before and before[-1].text[:1] == "-" else "")
    variable = expanded["name"] or expanded["braced"]
    phrase = " ".join(texts)
    if any(map(_OPTION.match, texts)):
        return words
    if redact.is_secret_option(variable, phrase):
        name = variable
    elif option and redact.is_secret_option(option, phrase):
        name = option
    else:
        return words
    redact.remember_phrase(name, texts)
    hidden = redact.mark(name)
    return [_marked(f"{key}={hidden}" if key else hidden, words[0]), *(_marked(hidden, word) for word in words[1:])]


def _marked(text: str, word: Word) -> Word:
    return Word(text, text, word.line, prefix=text, inside=word.inside, file=word.file)
