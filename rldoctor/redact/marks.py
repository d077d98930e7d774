"""What stands where a secret stood."""

from __future__ import annotations

import re

_LONGEST = 40
_ODD = re.compile(r"[^\w-]+")
_MARK = re.compile(r"<removed:[\w-]+>")


def mark(name: str) -> str:
    """The mark of a secret that stood under this name; of ``a.b.api_key`` the last part counts."""
    last = _ODD.sub("-", name.lstrip("-+").rpartition(".")[2]).strip("-")[:_LONGEST]
    return f"<removed:{last or 'secret'}>"


def is_mark(value: object) -> bool:
    """Whether a value is the mark of one that was removed."""
    return isinstance(value, str) and _MARK.fullmatch(value) is not None


def has_mark(text: str) -> bool:
    """Whether something was removed from a text."""
    return _MARK.search(text) is not None


def as_word(text: str) -> str:
    """The text with every mark as a word that no format takes for syntax: ``removed:HF_TOKEN``."""
    return _MARK.sub(lambda mark: mark[0].strip("<>"), text)
