"""What stays of a log line when all that changes from run to run is taken out: numbers, paths, addresses, ids."""

from __future__ import annotations

import re

_LONGEST = 2000
_KEPT = 300

_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\|")
_CHANGING = re.compile(
    r"(?P<id>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|\b(?=[a-f]{0,64}\d)[0-9a-f]{7,64}\b)"
    r"|(?<![\w.])(?P<path>(?:/[\w.+@=~:-]+)+)/?"
    r"|(?P<number>[-+]?\d+(?:[.,:_]\d+)*(?:e[-+]?\d+)?)"
)
_SEVERAL = re.compile(r"#(?:[\s,;/|:x-]{0,4}#)+")
_RULE = re.compile(r"([-=*_#─━~.])\1{3,}")
_BLANKS = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[A-Za-z]{3,}")


def template(text: str) -> str:
    """The line without what changes; equal for two lines that one statement of a program wrote. ``text`` has no
    prefixes any more (rank, time, level)."""
    text = _CHANGING.sub(_placeholder, _BAR.sub("%|", text[:_LONGEST]))
    text = _RULE.sub(r"\1", _SEVERAL.sub("#", text))
    return _BLANKS.sub(" ", text).strip()[:_KEPT]


def words(text: str) -> set[str]:
    """The words of a line or template in small letters."""
    return {word.lower() for word in _WORD.findall(text)}


def _placeholder(match: re.Match[str]) -> str:
    """``#`` for ids and numbers. Of a path the file's name stays, unless it looks made up."""
    if match["path"] is None:
        return "#"
    name = match["path"].rpartition("/")[2]
    return f"/{_DIGITS.sub('#', name)}" if "." in name or not _DIGITS.search(name) else "/#"
