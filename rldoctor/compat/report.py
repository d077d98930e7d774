"""The formats of an answer."""

from __future__ import annotations

from collections.abc import Callable

from rldoctor.compat import json_document, rich_text
from rldoctor.compat.model import Answer
from rldoctor.errors import InputError
from rldoctor.printable import printable

_FORMATS: dict[str, Callable[[Answer, bool | None], str]] = {
    "rich": rich_text.render,
    "json": json_document.render,
}


def renderer(name: str, *, to_file: bool = False) -> Callable[[Answer], str]:
    """The renderer of a format, which gets no text that a terminal would obey; ``to_file`` keeps colours out, too.

    Raises :class:`InputError` for a name that is none."""
    if name not in _FORMATS:
        raise InputError(f"unknown format {name!r}; known are {', '.join(_FORMATS)}")
    return lambda answer: _FORMATS[name](printable(answer), False if to_file else None)
