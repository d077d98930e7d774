"""What a shell makes of a secret: where a variable brings it, and where it stands without quotes and becomes several
words, nobody can tell from a word what it is. A mark takes its place before that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, takewhile

from rldoctor import redact
from rldoctor.formats.shell.reader import Piece, Variable, Word

# $NAME or ${NAME:-words} alone, or behind key=
_EXPANDED = re.compile(
    r"(?:(?P<key>[-+\w.]{1,128})=)?\"?\$(?:\{(?P<braced>\w+)(?:\[[@*]\]|:?[-=?][^{}]*)?\}|(?P<name>\w+))\"?"
)
# Lengths and counts: LEN_PASS=4096.
_COUNT = re.compile(r"\d{1,5}")
_OPTION = re.compile(r"-|[\w.+~]+=")


def without_secret(name: str, variable: Variable) -> Variable:
    """The variable with as many marks as it has words where its name says that it holds a secret: whatever it is handed
    on to, through how many variables, has the marks."""
    texts = [word.value for word in variable.words if isinstance(word.value, str)]
    held = [word for text in texts for word in text.split()]
    if not held or not _holds_a_secret(name, " ".join(held)) or any(map(redact.has_mark, texts)):
        return variable
    if len(held) == 1:
        redact.remember(name, held[0])
    else:
        redact.remember_phrase(name, held)
    mark = redact.mark(name)
    return replace(variable, words=tuple(_hidden_word(word, mark) for word in variable.words))


def _holds_a_secret(variable: str, text: str) -> bool:
    """Whether a variable of this name does. A short number is a setting more often, but for a password's."""
    counts = _COUNT.fullmatch(text) is not None and "password" not in variable.lower()
    return not counts and redact.is_secret_option(variable, text)


def _hidden_word(word: Word, mark: str) -> Word:
    if not isinstance(word.value, str) or not word.value.strip():
        return word
    text = " ".join([mark] * len(word.value.split()))
    return replace(_marked(text, word), pieces=(Piece(text, word.line, file=word.file),))


def without_phrase(before: Sequence[Word], written: str, words: list[Word]) -> list[Word]:
    """The words that one word of a script becomes, with marks in place of those of a pass phrase: what a variable with
    the name of a secret holds, and what stands behind an option with one. Options in such a variable stay."""
    expanded = _EXPANDED.fullmatch(written)
    if (len(words) < 2 and expanded is None) or not words or any(word.open for word in words):
        return words
    texts = [word.text for word in words]
    key = expanded["key"] if expanded else None
    if key:
        texts[0] = texts[0].removeprefix(f"{key}=")
    if expanded is None or any(map(_OPTION.match, texts)):
        return _without_held(words)
    option = key or (before[-1].text if before and before[-1].text[:1] == "-" else "")
    option = option if len(words) > 1 else ""  # one word is known by what stands before it
    variable = expanded["name"] or expanded["braced"]
    phrase = " ".join(texts)
    name = variable if _holds_a_secret(variable, phrase) else option
    if name is option and not (option and redact.is_secret_option(option, phrase)):
        return words
    return _hidden(name, key, texts, words)


def _without_held(words: list[Word]) -> list[Word]:
    """The same for options that one variable holds, of which one was given another variable:
    ``OPTIONS="a.password=$NOTE --x"``."""
    kept: list[Word] = []
    while len(kept) < len(words):
        word = words[len(kept)]
        key, sign, value = word.text.partition("=")
        option = key if sign else kept[-1].text if kept else ""
        further: list[Word] = []
        if _comes_from_a_variable(word) and (sign or option[:1] == "-"):
            further = list(takewhile(_may_be_a_rest, islice(words, len(kept) + 1, None)))
        texts = [value if sign else word.text, *(one.text for one in further)]
        if further and redact.is_secret_option(option, " ".join(texts)):
            kept += _hidden(option, key if sign else None, texts, [word, *further])
        else:
            kept.append(word)
    return kept


def _may_be_a_rest(word: Word) -> bool:
    return _comes_from_a_variable(word) and not _OPTION.match(word.text)


def _comes_from_a_variable(word: Word) -> bool:
    return bool(word.pieces) and not word.pieces[-1].literal


def _hidden(name: str, key: str | None, texts: Sequence[str], words: Sequence[Word]) -> list[Word]:
    redact.remember_phrase(name, texts)
    hidden = redact.mark(name)
    return [_marked(f"{key}={hidden}" if key else hidden, words[0]), *(_marked(hidden, word) for word in words[1:])]


def _marked(text: str, word: Word) -> Word:
    return Word(text, text, word.line, prefix=text, inside=word.inside, file=word.file)
