"""Hydra's grammar of overrides (hydra/grammar/OverrideLexer.g4 and OverrideParser.g4 of 1.3), without a parser
generator: the longest token wins, the first of equally long ones."""

from __future__ import annotations

import re
from typing import Any

from rldoctor.expressions import expression
from rldoctor.formats.values import Unresolved
from rldoctor.records import dataclass

MAX_NESTING = 40
MAX_CHARACTERS = 100_000
_INT = r"(?:0|[1-9](?:_?[0-9])*)"
_POINT = rf"(?:{_INT}?\.[0-9](?:_?[0-9])*|{_INT}\.)"
_EXPONENT = rf"(?:(?:{_POINT}|{_INT})[eE][+-]?[0-9](?:_?[0-9])*)"
_ID = r"[A-Za-z_][A-Za-z0-9_-]*"
_SPECIAL = r"[A-Za-z_$][A-Za-z0-9_$-]*"
_PART = rf"(?:{_SPECIAL}|{_INT})"
_PACKAGE = rf"(?:{_PART}(?:\.{_PART})+|{_SPECIAL}|)"
_KEY = expression(
    rf"(?P<sign>\+\+?|~)?(?P<key>{_ID}(?:/{_ID})+|{_PACKAGE})(?:@(?P<package>{_PACKAGE}))?(?:(?P<is>=)[ \t]*|\Z)"
)
_TOKENS = [
    (name, expression(pattern, re.DOTALL))
    for name, pattern in (
        ("(", r"[ \t]*\([ \t]*"),
        (",", r"[ \t]*,[ \t]*"),
        (")", r"[ \t]*\)"),
        ("[", r"\[[ \t]*"),
        ("]", r"[ \t]*\]"),
        ("{", r"\{[ \t]*"),
        ("}", r"[ \t]*\}"),
        (":", r"[ \t]*:[ \t]*"),
        ("=", r"[ \t]*=[ \t]*"),
        ("float", rf"[+-]?(?:{_EXPONENT}|{_POINT}|[Ii][Nn][Ff]|[Nn][Aa][Nn])"),
        ("int", rf"[+-]?{_INT}"),
        ("bool", r"[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]"),
        ("null", r"[Nn][Uu][Ll][Ll]"),
        ("char", r"[/\-\\+.$%*@?|]"),
        ("id", _ID),
        ("escape", r"(?:\\\\|\\\(|\\\)|\\\[|\\\]|\\\{|\\\}|\\:|\\=|\\,|\\ |\\\t)+"),
        ("blank", r"[ \t]+"),
        ("quoted", r""""(?:(?:\\\\)*|.*?[^\\](?:\\\\)*)"|'(?:(?:\\\\)*|.*?[^\\](?:\\\\)*)\'"""),
        ("interpolation", r"\$\{[^}]+\}"),
    )
]
# What a plain value is made of, and a key of a mapping.
IN_TEXT = frozenset({"id", "null", "int", "float", "bool", "interpolation", "char", ":", "escape", "blank"})
IN_KEY = IN_TEXT - {":", "interpolation"}


# The kind of a token, and its text; of an interpolation its value, where it was resolved.
Token = tuple[str, Any]


class TooLargeError(ValueError):
    """A value beyond the bounds of this reader, whatever Hydra makes of it."""


@dataclass(frozen=True)
class Override:
    """One override. ``key`` is a dotted path or a group with slashes, ``sign`` its ``+``, ``++`` or ``~``, ``package``
    what stands behind its ``@``. ``value`` is an :class:`Unresolved` for a sweep or a function; ``given`` says whether
    there is an ``=``."""

    key: str
    value: Any
    sign: str = ""
    package: str | None = None
    given: bool = True
    sweep: bool = False


def parse_override(text: str) -> Override:
    """One override as Hydra reads it. Raises ValueError with the reason where Hydra refuses it."""
    head = _KEY.match(text)
    if head is None or (not head["is"] and head["sign"] != "~"):
        raise ValueError("no override of Hydra's grammar")
    key, sign, given = head["key"], head["sign"] or "", bool(head["is"])
    value = parse_value(text[head.end() :]) if given else None
    sweep = isinstance(value, Unresolved) and value.why == SWEEP
    return Override(key, value, sign, head["package"], given, sweep)


def parse_value(text: str) -> Any:
    """The value behind ``=``: a quoted or plain text, a number, null, a list, a dictionary; an :class:`Unresolved` for
    a sweep or a function. Raises ValueError where Hydra refuses it, :class:`TooLargeError` beyond this reader's
    bounds."""
    if len(text) > MAX_CHARACTERS:
        raise TooLargeError(f"{len(text)} characters are too many for a value")
    if not text:
        return ""
    parser = _Parser(_tokens(text))
    first = parser.element(0)
    if parser.kind() == ",":
        while parser.kind() == ",":
            parser.next()
            parser.element(0)
        first = Unresolved(text, SWEEP)
    if parser.kind():
        raise ValueError(f"{parser.tokens[parser.at][1]!r} is not expected")
    return first


SWEEP = "a sweep over several values"
_SWEEPING = frozenset({"choice", "range", "interval", "glob", "shuffle", "tag"})
_FUNCTIONS = _SWEEPING | {"int", "float", "str", "bool", "sort"}


def token(text: str, at: int) -> tuple[str, int]:
    """The kind of the token that begins here, and its length; 0 where none does."""
    name, size = "", 0
    for kind, pattern in _TOKENS:
        match = pattern.match(text, at)
        if match is not None and match.end() - at > size:
            name, size = kind, match.end() - at
    return name, size


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(text):
        name, size = token(text, at)
        if not size:
            raise ValueError(f"{text[at]!r} must be quoted")
        found.append((name, text[at : at + size]))
        at += size
    return found


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def kind(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][0] if at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return str(self.tokens[self.at - 1][1])

    def expect(self, kind: str) -> None:
        if self.kind() != kind:
            raise ValueError(f"{kind!r} is missing")
        self.next()

    def element(self, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise TooLargeError("nested too deeply")
        kind = self.kind()
        if kind == "[":
            return self._list(depth)
        if kind == "{":
            return self._dictionary(depth)
        if kind == "id" and self.kind(1) == "(":
            return self._function(depth)
        if kind == "quoted":
            return _unquoted(self.next())
        return self._text(IN_TEXT)

    def _list(self, depth: int) -> list[Any]:
        self.next()
        found: list[Any] = []
        if self.kind() != "]":
            found.append(self.element(depth + 1))
            while self.kind() == ",":
                self.next()
                found.append(self.element(depth + 1))
        self.expect("]")
        return found

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        self.next()
        found: dict[Any, Any] = {}
        while self.kind() != "}" or found:
            key = self._text(IN_KEY)
            self.expect(":")
            found[key] = self.element(depth + 1)
            if self.kind() != ",":
                break
            self.next()
        self.expect("}")
        return found

    def _function(self, depth: int) -> Unresolved:
        name = self.next()
        text = [name, self.next()]
        while self.kind() != ")":
            if self.kind() == "id" and self.kind(1) == "=":
                text += [self.next(), self.next()]
            before = self.at
            self.element(depth + 1)
            text += [part for _, part in self.tokens[before : self.at]]
            if self.kind() == ",":
                text.append(self.next())
                if self.kind() != ")":
                    continue
                raise ValueError("an argument is missing")
            break
        self.expect(")")
        if name not in _FUNCTIONS:
            raise ValueError(f"Hydra knows no function {name}")
        return Unresolved("".join(text) + ")", SWEEP if name in _SWEEPING else f"Hydra computes {name}(...)")

    def _text(self, allowed: frozenset[str]) -> Any:
        """Tokens that together are one plain value."""
        start = self.at
        while self.kind() in allowed:
            self.next()
        parts = self.tokens[start : self.at]
        if parts and parts[0][0] == "blank":
            if len(parts) == 1:
                raise ValueError("a value of blanks alone")
            parts = parts[1:]
        if parts and parts[-1][0] == "blank":
            parts = parts[:-1]
        if not parts:
            raise ValueError("a value is missing")
        return joined(parts)


def joined(parts: list[Token]) -> Any:
    """The plain value that tokens are together; a single one may be a number, a truth value or null."""
    if len(parts) > 1:
        return "".join(text[1::2] if kind == "escape" else text for kind, text in parts)
    kind, text = parts[0]
    if kind == "int":
        return int(text) if len(text) <= 300 else Unresolved(text, "a number beyond settings")
    if kind == "float":
        return float(text)
    if kind == "bool":
        return text.lower() == "true"
    if kind == "null":
        return None
    return text[1::2] if kind == "escape" else text


def _unquoted(text: str) -> str:
    """What stands between quotes: backslashes count only before a quote of the same kind, and at the end."""
    return re.sub(rf"\\*{text[0]}", lambda found: found[0][1::2], text[1:])
