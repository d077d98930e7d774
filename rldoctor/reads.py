"""Which facts a judgement reads, and which of them nobody knows: what it concludes without them is no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field

from rldoctor.records import dataclass


@dataclass
class Reads:
    """The dotted names of the facts that were read, and what there is to say of those that are not known."""

    facts: set[str] = field(default_factory=set)
    unknown: dict[str, tuple[str, str]] = field(default_factory=dict)

    def missing(self) -> str:
        """What is not known, in one line; facts of which the same is to be said stand together."""
        said: dict[str, list[str]] = {}
        for clause, item in self.unknown.values():
            said.setdefault(clause, []).extend([item] if item else [])
        return "; ".join(f"{clause} {', '.join(items)}".strip() for clause, items in said.items())


class NotKnown(Exception):  # noqa: N818  (named as NotChecked is)
    """A judgement would take something else for a fact that nobody knows; the message is its name."""


_LISTENING: ContextVar[Reads | None] = ContextVar("reads", default=None)


@contextmanager
def listening() -> Iterator[Reads]:
    """The facts that are read inside, filled as they are."""
    reads = Reads()
    token = _LISTENING.set(reads)
    try:
        yield reads
    finally:
        _LISTENING.reset(token)


@contextmanager
def aside() -> Iterator[None]:
    """Facts that are read inside decide nothing: they word what is decided without them, or what is there is gone
    through and each item is judged as it is."""
    token = _LISTENING.set(None)
    try:
        yield
    finally:
        _LISTENING.reset(token)


def note(fact: str, unknown: str | None = None, item: str = "") -> None:
    """Records that a fact was read, and where it is not known what there is to say of that, with the ``item`` of which
    it is said at its end."""
    reads = _LISTENING.get()
    if reads is not None:
        reads.facts.add(fact)
        if unknown is not None:
            reads.unknown.setdefault(fact, (unknown, item))


def end(fact: str) -> None:
    """Ends the judgement that is listened to, if any: it cannot go on without this fact."""
    if _LISTENING.get() is not None:
        raise NotKnown(fact)
