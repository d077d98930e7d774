"""Letters that a web page or a word processor puts in the place of a shell's quotes and hyphens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rldoctor.frameworks.launch import Launch
from rldoctor.plan.model import Form, RefusedValue

if TYPE_CHECKING:
    from rldoctor.formats.shell.reader import Word

_DOUBLE, _SINGLE, _DASHES = "\u201c\u201d\u201e", "\u2018\u2019", "\u2013\u2014"
# A whole word or the value of an override between such quotes; the other one is missing where a blank stands between.
_QUOTED = re.compile(rf"([\w.+~/-]+=)?([{_DOUBLE}]\S*|[{_SINGLE}]\S*[{_SINGLE}]|\S*[{_DOUBLE}])")
# An en or em dash where an option's hyphens belong.
_DASHED = re.compile(rf"[{_DASHES}]{{1,2}}-?(?P<name>[A-Za-z][\w-]*)")
_STRAIGHT = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))


def typographic(launch: Launch) -> list[RefusedValue]:
    """The words of the launch that have such letters where a shell's own belong: to the shell they are text."""
    found = []
    for before, word in zip((None, *launch.words), launch.words, strict=False):
        text = word.text
        if text.isascii() or any(letter.isspace() for letter in text):
            continue
        if dashed := _DASHED.match(text):
            found.append(_refused(launch, word, text, "the dash is typographic, and begins no option", dashed["name"]))
        elif _QUOTED.fullmatch(text):
            named = f"{before.text} " if before is not None and before.text.startswith("--") else ""
            why = "the quotes are typographic, and the shell takes them as letters of the value"
            found.append(_refused(launch, word, named + text, why))
    return found


def _refused(launch: Launch, word: Word, shown: str, why: str, option: str | None = None) -> RefusedValue:
    straight = word.text.translate(_STRAIGHT) if option is None else f"--{option}"
    return RefusedValue(
        key=shown,
        value="",
        file=word.file or launch.file,
        line=word.line,
        form=Form.OPTION,
        owner="the shell",
        takes=straight,
        why=why,
    )
