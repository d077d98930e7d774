"""Makes texts from outside (file names, log lines, messages) fit to be printed and stored, wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

# Lone surrogates are how Python keeps bytes that are no UTF-8 (PEP 383); neither JSON nor a UTF-8 file can hold them.
_SURROGATE = re.compile("[\ud800-\udfff]")
# What is obeyed instead of shown, or not seen at all: control characters, those that turn the direction of the text,
# and those without a width, which hide in names and words (Unicode's default ignorable code points; an emoji's
# variation selector is left alone), and code points that are no characters, which HTML and XML forbid.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)


def plain(text: str) -> str:
    """The text in characters that JSON can carry: bytes that are no UTF-8 come as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def storable(value: T) -> T:
    """The same value with lone surrogates as escapes (``\\udce9``) in all its texts."""
    changed: T = _mapped(value, lambda text: _SURROGATE.sub(_escape, text))
    return changed


def printable(value: T) -> T:
    """The same value with everything as escapes that would do more to a terminal than stand there."""
    changed: T = _mapped(value, lambda text: _OBEYED.sub(_escape, text))
    return changed


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """``value`` with every text below it changed; what no text changes in is returned as it is."""
    if type(value) is str:
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in fields(value)}
        new = {name: _mapped(item, change) for name, item in old.items()}
        return replace(value, **new) if new != old else value
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    return value
