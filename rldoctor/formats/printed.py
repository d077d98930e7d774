"""What programs print of their settings: Python's ``repr`` and ``pprint``, JSON, a dataclass's or a Namespace's fields,
a table with dots between its two columns.

Values that are printed as objects (``<Strategy.STEPS: 'steps'>``, ``torch.dtype(...)``) stay unresolved; what a text
that was cut off still holds is kept."""

from __future__ import annotations

import ast
import re
from typing import Any

from rldoctor.expressions import expression
from rldoctor.formats.native import Located
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved, scalar

MAX_DEPTH = 60
_SPACE = expression(r"\s*")
_STRING = expression(r"""[bru]?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")""")
_BARE = expression(r"[^\s,(\[{<>'\"}\])=:]+")
_KEY = expression(r"([A-Za-z_][\w.-]*)\s*=")
_FIELD = expression(r"\s*([A-Za-z_][\w.-]*)\s*=(.*)$")
# Megatron's arguments: 48 columns of a name and dots, under a title between dashes. A longer name has no dots.
TABLE = expression(r"-{4,} [\w ]{1,60} -{4,}$")
_ROW = expression(r"\s*([A-Za-z_][\w.-]*) (?:\.+ | )(.*)$")
_OPENING = expression(r"[A-Za-z_][\w.]*\(")
_ENUM = expression(r"<[\w.]+: (.+)>$")
_DTYPE = expression(r"torch\.(b?float\d+|half)$")
_WORD = expression(r"[A-Za-z][\w./-]*$")
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_PYTHON = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}


def read_printed(source: Source) -> Located:
    """The settings that a text holds: a dictionary, the fields of ``Name(...)``, the rows of a table under its title,
    or what stands as ``key=value, ...``. Empty where it holds none."""
    reader = _Reader(source)
    if TABLE.match(source.text.partition("\n")[0]):
        return reader.lines(_ROW)
    opening = _OPENING.match(source.text)
    if opening is not None:
        reader.at = opening.end()
        # A trainer's arguments print each on a line of its own, with str(): texts without quotes.
        plain = source.text[opening.end() : opening.end() + 2].lstrip(" ").startswith("\n")
        return reader.lines() if plain else reader.fields(")")
    if source.text[:1] == "{":
        found = reader.value(0)
        return found if isinstance(found, Located) else Located({}, {})
    return reader.fields("")


def is_whole(text: str) -> bool:
    """Whether every bracket that a printed text opens is closed again."""
    depth = 0
    bare = _STRING.sub("", text)
    for character in bare:
        depth += (character in "{[(") - (character in "}])")
        if depth == 0 and character in "}])":
            return True
    return False


class _Reader:
    """Reads forwards through one text; what it does not understand, it steps over."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self._counted = (0, source.first_line)

    def fields(self, end: str) -> Located:
        """``key=value`` after ``key=value``, up to ``end``."""
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while self.skip() and not (end and self.text.startswith(end, self.at)):
            key = _KEY.match(self.text, self.at)
            if key is None:
                break
            self.at = key.end()
            lines[key[1]], values[key[1]] = self.line(), self.value(1)
            self.comma()
        return Located(values, lines)

    def lines(self, field: re.Pattern[str] = _FIELD) -> Located:
        """A ``field`` on each line, its name and its value as ``str`` shows it."""
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for offset, line in enumerate(self.text[self.at :].split("\n")):
            found = field.match(line)
            if found is not None:
                lines[found[1]] = self.source.first_line + offset
                values[found[1]] = _shown(found[2].strip().removesuffix(","), lines[found[1]], self.source.file)
        return Located(values, lines)

    def value(self, depth: int) -> Any:
        """The value that begins here."""
        self.skip()
        start = self.at
        opening = self.text[start : start + 1]
        if depth > MAX_DEPTH:
            self.at = len(self.text)
            return Unresolved("", "nested too deeply")
        if opening == "{":
            found = self.entries(depth)
        elif opening and opening in "[(":
            found = self.items(depth)
        elif _STRING.match(self.text, start):
            found = self.string()
        else:
            found = self.bare()
        if self.ended():
            return found
        self.object(start)
        return _object(self.text[start : self.at])

    def entries(self, depth: int) -> Any:
        """A dictionary, or a set."""
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        members: list[Any] = []
        self.at += 1
        while self.skip() and self.text[self.at] != "}":
            before, line = self.at, self.line()
            key = self.value(depth + 1)
            self.skip()
            if self.text.startswith(":", self.at):
                self.at += 1
                lines[str(key)], values[str(key)] = line, self.value(depth + 1)
            else:
                members.append(key)
            self.comma()
            self.at = max(self.at, before + 1)
        self.at += 1
        return members if members and not values else Located(values, lines)

    def items(self, depth: int) -> Any:
        """A list or a tuple; what only stands in brackets is itself."""
        closing = _CLOSING[self.text[self.at]]
        members: list[Any] = []
        commas = 0
        self.at += 1
        while self.skip() and self.text[self.at] != closing:
            before = self.at
            members.append(self.value(depth + 1))
            commas += self.comma()
            self.at = max(self.at, before + 1)
        self.at += 1
        return members[0] if closing == ")" and len(members) == 1 and not commas else members

    def string(self) -> str:
        """A text, with those that ``pprint`` put on the next lines."""
        parts = []
        while (part := _STRING.match(self.text, self.at)) is not None:
            try:
                parts.append(str(ast.literal_eval(part[0])))
            except (ValueError, SyntaxError):
                parts.append(part[0][1:-1])
            self.at = part.end()
            following = _SPACE.match(self.text, self.at)
            if following is None or not _STRING.match(self.text, following.end()):
                break
            self.at = following.end()
        return "".join(parts)

    def bare(self) -> Any:
        """A number, a truth value, or a word."""
        found = _BARE.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return _bare(found[0])

    def ended(self) -> bool:
        """Whether a value is over here."""
        self.skip()
        return self.at >= len(self.text) or self.text[self.at] in ",}]):\n"

    def object(self, start: int) -> None:
        """Steps over the rest of an object's own form, up to what ends it."""
        depth, self.at = 0, start
        while self.at < len(self.text):
            character = self.text[self.at]
            if (part := _STRING.match(self.text, self.at)) is not None and character in "'\"":
                self.at = part.end()
                continue
            if depth == 0 and character in ",}])":
                return
            depth += (character in "{[(<") - (character in "}])>")
            self.at += 1

    def comma(self) -> bool:
        self.skip()
        if self.text.startswith(",", self.at):
            self.at += 1
            return True
        return False

    def skip(self) -> bool:
        """Goes to the next character that is no space; whether there is one."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found is not None else self.at
        return self.at < len(self.text)

    def line(self) -> int:
        at, line = self._counted
        line += self.text.count("\n", at, self.at)
        self._counted = (self.at, line)
        return line


def _bare(text: str) -> Any:
    if text in _PYTHON:
        return _PYTHON[text]
    if (dtype := _DTYPE.match(text)) is not None:
        return dtype[1]
    value = scalar(text)
    if isinstance(value, str) and not _WORD.match(value):
        return Unresolved(text, "printed as an object")
    return value


def _object(text: str) -> Any:
    """``<Strategy.STEPS: 'steps'>`` is what it stands for, anything else is not known."""
    enum = _ENUM.match(text.strip())
    if enum is not None and _STRING.fullmatch(enum[1]):
        return enum[1][1:-1]
    return Unresolved(text[:200], "printed as an object")


def _shown(text: str, line: int, file: str) -> Any:
    """What a field that was printed with ``str`` holds."""
    if text[:1] in ("{", "[", "'", '"', "<"):
        return _Reader(Source(text, file, line)).value(1)
    if text[:1] == "(" or "(" in text:
        return Unresolved(text[:200], "printed as an object")
    return _PYTHON[text] if text in _PYTHON else scalar(text)
