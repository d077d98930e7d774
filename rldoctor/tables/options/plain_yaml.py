"""Reads the plain YAML of configuration trees fast; whatever is not plain goes to the full parser.

A tree of Hydra files has some two thousand lines, for which the full parser in pure Python takes a quarter of a second
and this one a few milliseconds. Plain means: block mappings and sequences, flow collections on one line, quoted
scalars on one line, other scalars, comments. Anchors, tags, block scalars, merge keys and several documents are not."""

from __future__ import annotations

import re
from typing import Any

_KEY = re.compile(
    r"""("[^"\\]*"|'[^']*'|[^\s#&*!|>%@`"'\[\]{},?:-][^#]*?|-?[^\s#&*!|>%@`"'\[\]{},?:][^#:]*?)\s*:(?=\s|$)"""
)
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"[-+]?(\d[\d_]*\.[\d_]*|\.\d[\d_]*|\d[\d_]*(?=[eE]))([eE][-+]?\d+)?$")
_CLOCK = re.compile(r"\d\d(:\d\d){2,}$")
_NUMERIC = re.compile(r"[-+]?\.?\d")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", "+.inf", ".Inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf"), float("-inf")),
}
_NOT_PLAIN = ("&", "*", "!", "|", ">", "%", "@", "`", "? ", "- ", "]", "}", ",")


class _NotPlainError(Exception):
    """The text uses more of YAML than this reader knows."""


def load(text: str) -> Any:
    """The document in ``text`` as plain values; an empty one is None.

    Raises ``ValueError`` where the text is no YAML."""
    try:
        return _Reader(text).document()
    except (_NotPlainError, RecursionError):
        return _full(text)


def _full(text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, RecursionError) as error:
        raise ValueError(f"not readable as YAML: {str(error).splitlines()[0]}") from error


class _Reader:
    """A cursor over the lines that hold something: (indent, content); ``numbers`` says where they stand."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, str]] = []
        self.numbers: list[int] = []
        self.position = 0
        for number, raw in enumerate(text.splitlines()):
            content = raw.strip()
            if not content or content.startswith("#"):
                continue
            if "\t" in raw or content in ("---", "..."):
                raise _NotPlainError
            self.lines.append((len(raw) - len(raw.lstrip(" ")), content))
            self.numbers.append(number)

    def document(self) -> Any:
        if not self.lines:
            return None
        value = self.block(self.lines[0][0])
        if self.position != len(self.lines):
            raise _NotPlainError
        return value

    def block(self, indent: int) -> Any:
        """The mapping or sequence whose entries start at ``indent``."""
        return self.sequence(indent) if _is_entry(self.lines[self.position][1]) else self.mapping(indent)

    def mapping(self, indent: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while self.position < len(self.lines):
            at, content = self.lines[self.position]
            if at < indent:
                break
            match = _KEY.match(content)
            if at > indent or match is None or _is_entry(content):
                raise _NotPlainError
            key = _scalar(match.group(1))
            if key in found or not isinstance(key, str | int) or key == "<<":
                raise _NotPlainError
            self.position += 1
            found[key] = self.value(content[match.end() :], indent)
        return found

    def sequence(self, indent: int) -> list[Any]:
        found: list[Any] = []
        while self.position < len(self.lines):
            at, content = self.lines[self.position]
            if at != indent or not _is_entry(content):
                if at > indent:
                    raise _NotPlainError
                break
            rest = content[1:].lstrip()
            if rest and not rest.startswith("#") and (_KEY.match(rest) or _is_entry(rest)):
                inner = indent + len(content) - len(rest)
                self.lines[self.position] = (inner, rest)
                found.append(self.block(inner))
            else:
                self.position += 1
                found.append(self.value(content[1:], indent, entry=True))
        return found

    def value(self, rest: str, indent: int, entry: bool = False) -> Any:
        """What follows a key or a dash: something on the same line, or a block below."""
        rest = rest.strip()
        if rest and not rest.startswith("#"):
            return _inline(self.continued(rest, indent))
        if self.position < len(self.lines):
            at, content = self.lines[self.position]
            if at > indent or (at == indent and not entry and _is_entry(content)):
                return self.block(at)
        return None

    def continued(self, rest: str, indent: int) -> str:
        """A scalar with the lines that continue it, joined as YAML folds them."""
        parts = [rest]
        while self.position < len(self.lines) and self.lines[self.position][0] > indent:
            content = self.lines[self.position][1]
            follows = self.numbers[self.position] == self.numbers[self.position - 1] + 1
            if not follows or rest[0] in "\"'[{" or " #" in parts[-1] or " #" in content:
                raise _NotPlainError
            parts.append(content)
            self.position += 1
        return " ".join(parts)


def _is_entry(content: str) -> bool:
    return content == "-" or content.startswith("- ")


def _inline(text: str) -> Any:
    """A flow collection or scalar with an optional comment behind it."""
    if text[0] in "[{":
        value, end = _flow(text, 0)
        rest = text[end:].strip()
        if rest and not rest.startswith("#"):
            raise _NotPlainError
        return value
    if text[0] in "\"'":
        end = text.find(text[0], 1)
        rest = text[end + 1 :].strip()
        if end < 0 or (rest and not rest.startswith("#")):
            raise _NotPlainError
        return _scalar(text[: end + 1])
    comment = text.find(" #")
    return _scalar(text[:comment].rstrip() if comment >= 0 else text)


def _flow(text: str, at: int) -> tuple[Any, int]:
    """The flow collection or scalar at ``at`` and the index behind it."""
    if text[at] == "[":
        items: list[Any] = []
        at = _skip(text, at + 1)
        while text[at] != "]":
            item, at = _flow(text, at)
            items.append(item)
            at = _separator(text, at, "]")
        return items, at + 1
    if text[at] == "{":
        pairs: dict[Any, Any] = {}
        at = _skip(text, at + 1)
        while text[at] != "}":
            key, at = _flow(text, at)
            at = _skip(text, at)
            if text[at] != ":" or not isinstance(key, str | int):
                raise _NotPlainError
            pairs[key], at = _flow(text, _skip(text, at + 1))
            at = _separator(text, at, "}")
        return pairs, at + 1
    return _flow_scalar(text, at)


def _flow_scalar(text: str, at: int) -> tuple[Any, int]:
    start = at
    if text[at] in "\"'":
        end = text.find(text[at], at + 1)
        if end < 0:
            raise _NotPlainError
        return _scalar(text[at : end + 1]), end + 1
    while at < len(text) and text[at] not in ",[]{}#" and not text.startswith(": ", at):
        at += 1
    if at >= len(text) or text[at] in "[{#":
        raise _NotPlainError
    return _scalar(text[start:at].strip()), at


def _separator(text: str, at: int, closing: str) -> int:
    at = _skip(text, at)
    if text[at] == ",":
        return _skip(text, at + 1)
    if text[at] != closing:
        raise _NotPlainError
    return at


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    if at >= len(text):
        raise _NotPlainError  # the collection goes on in the next line
    return at


def _scalar(text: str) -> Any:
    if text[:1] in ("'", '"'):
        inner = text[1:-1]
        if "\\" in inner or "''" in inner:
            raise _NotPlainError
        return inner
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith(_NOT_PLAIN) or ": " in text or text.endswith(":") or text in ("-", "="):
        raise _NotPlainError
    if _INT.match(text):
        return int(text.replace("_", ""))
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    if _CLOCK.match(text):
        return text
    if _NUMERIC.match(text):  # octal, a date, a version: which of them the full parser knows
        raise _NotPlainError
    return text
