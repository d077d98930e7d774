"""Parses TOML within bounds: a parser makes a table of every part of a dotted name, and each holds all below it."""

from __future__ import annotations

import re
import sys
from typing import Any

from rldoctor.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_CHARACTERS = 512 * 1024
MAX_LINES = 20_000
# Dotted names deeper than this are no settings.
MAX_DEPTH = 60
# Texts in quotes, and comments. One that is never closed goes as far as it can, or each quote in it would be tried.
TEXTS = re.compile(r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'|#[^\n]*""", re.DOTALL)
# TOML's own have 64 bits; Python refuses to print one of 4,300 digits.
_LONG = re.compile(r"[=\[,]\s{0,80}[-+]?(?:0[xob])?[0-9A-Fa-f_]{300}")
_AT = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_DEEP = re.compile(rf"(?<![\w-])[\w-]+(?:[ \t]*\.[ \t]*[\w-]+){{{MAX_DEPTH}}}")


def parse(text: str, file: object) -> dict[str, Any]:
    """The tables of a text; ``file`` names it. Raises :class:`InputError` with one line where it is no TOML."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{file}: {len(text) >> 10} KiB is too large for a TOML config")
    if text.count("\n") > MAX_LINES:
        raise InputError(f"{file}: more than {MAX_LINES} lines are too many for a TOML config")
    names = TEXTS.sub(lambda found: "" if found[0].startswith("#") else "x", text)
    if _DEEP.search(names):
        raise InputError(f"{file}: nested too deeply to be read")
    if _LONG.search(names):
        raise InputError(f"{file}: has a number beyond settings")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(_refusal(file, text, str(error))) from None


def _refusal(file: object, text: str, said: str) -> str:
    """What the parser said, with the line where editors look for it."""
    at = _AT.search(said)
    if at is None:
        return f"{file}: not valid TOML: {said}"
    line = at["line"] or len(text.splitlines())
    column = f" (column {at['column']})" if at["column"] else ""
    return f"{file}:{line}: not valid TOML: {said[: at.start()]}{column}"
