"""Python source without the bodies of its functions, which hold four fifths of the text and no declarations but what a
dataclass makes of its fields in ``__post_init__``.

Parsing is most of what reading an installed framework costs; without bodies it costs a quarter. Lines keep their
numbers, and expressions their columns. What a function or class is generic over (``def f[T](...)``) is left out as
well, which interpreters before Python 3.12 do not know. The scanner knows strings and brackets only as far as
well-formed source needs; where it is not sure it answers None, and the whole text has to be parsed."""

from __future__ import annotations

import re

_HEADER = re.compile(r"( *)(async +)?def +\w")
_GENERIC = re.compile(r"^( *(?:(?:async +)?def|class) +\w+)(\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])(?= *[(:])")
_TRIPLE = re.compile(r"\"\"\"|'''")
_SHORT_STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_STRUCTURE = re.compile(r"[()\[\]{}:#]")
_QUOTE_OR_COMMENT = re.compile(r"[\"'#]")
_TOP_LEVEL = re.compile(r"(class|def|async def|@)\b")
_LONGEST_HEADER = 400  # lines of parameters


def outline(text: str) -> str | None:
    """``text`` with every function body but that of ``__post_init__`` replaced by ``...``, or None where that cannot be
    done safely."""
    lines = [_plain(line) if "[" in line else line for line in text.split("\n")]
    kept: list[str] = []
    inside: str | None = None  # the quote that closes the string in which the line starts
    skipping = -1  # the indentation of the function whose body is being left out
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if inside is not None:
            if _TOP_LEVEL.match(line):
                return None
            inside = _string_state(line, inside)
            kept.append("" if skipping >= 0 else line)
            continue
        stripped = line.lstrip(" ")
        if skipping >= 0:
            if not stripped or stripped[0] in "#\r" or len(line) - len(stripped) > skipping:
                if '"""' in line or "'''" in line:
                    inside = _string_state(line, None)
                kept.append("")
                continue
            skipping = -1
        header = _HEADER.match(line) if "def " in line and " __post_init__(" not in line else None
        if header is None:
            if '"""' in line or "'''" in line:
                inside = _string_state(line, None)
            kept.append(line)
            continue
        end = _header_end(lines, position - 1)
        if end is None:
            return None
        last, colon = end
        kept += lines[position - 1 : last]
        kept.append(lines[last][: colon + 1] + " ...")
        inside = _string_state(lines[last][colon + 1 :], None)
        position = last + 1
        skipping = len(header.group(1))
    return None if inside is not None else "\n".join(kept)


def _plain(line: str) -> str:
    """A header without what it is generic over."""
    return _GENERIC.sub(lambda header: header.group(1) + " " * len(header.group(2)), line)


def _string_state(line: str, inside: str | None) -> str | None:
    """The triple quote that is open after ``line``, given the one open before it."""
    for match in _TRIPLE.finditer(line):
        if inside is None:
            if "#" in _SHORT_STRING.sub("", line[: match.start()]):
                break
            inside = match.group()
        elif inside == match.group():
            inside = None
    return inside


def _header_end(lines: list[str], start: int) -> tuple[int, int] | None:
    """The line and column of the colon that ends the function header starting at ``start``."""
    first = lines[start].rstrip()
    plain = first.endswith(":") and not _QUOTE_OR_COMMENT.search(first)
    if plain and all(first.count(opening) == first.count(closing) for opening, closing in ("()", "[]", "{}")):
        return start, len(first) - 1
    depth = 0
    for number in range(start, min(start + _LONGEST_HEADER, len(lines))):
        line = lines[number]
        if '"""' in line or "'''" in line:
            line = line[: min(i for i in (line.find('"""'), line.find("'''")) if i >= 0)]
        bare = _SHORT_STRING.sub(lambda match: "_" * len(match.group()), line)
        for match in _STRUCTURE.finditer(bare):
            character = match.group()
            if character == "#":
                break
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
            elif character == ":" and depth == 0:
                return number, match.start()
    return None
