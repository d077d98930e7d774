"""Settings that a judgement asked for and that nobody could read: what it concludes without them is no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_HEARD: ContextVar[dict[str, str] | None] = ContextVar("unanswered", default=None)


@contextmanager
def listening() -> Iterator[dict[str, str]]:
    """The settings that are asked for inside and are unknown, with the reason of each; filled as they are asked for."""
    heard: dict[str, str] = {}
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def note(name: str, reason: str) -> None:
    """Records that a setting was asked for and is unknown."""
    heard = _HEARD.get()
    if heard is not None:
        heard.setdefault(name, reason)
