"""What was found of a fleet: its nodes, the classes of those that are alike, what sets a class apart and what that
breaks."""

from __future__ import annotations

from rldoctor.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Skew:
    """One fact that is another than on most nodes; ``value`` and ``others`` as people read them. ``codes`` are the
    checks whose pattern it brings about, ``breaks`` what that means for a run."""

    section: str
    name: str
    value: str
    others: str
    codes: tuple[str, ...] = ()
    breaks: str = ""


@dataclass(frozen=True, kw_only=True)
class NodeClass:
    """Nodes that differ from most in the same way."""

    nodes: tuple[str, ...]
    differs: tuple[Skew, ...]


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A node, or a file, of which nothing could be judged: why."""

    source: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What a check found when it ran on these nodes."""

    code: str
    severity: str
    message: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A whole fleet. ``alike`` are the nodes without any difference; ``notes`` is what a reader should know of how the
    bundles were taken (two of one node); ``judged`` is what the checks of a level found on the nodes, where one was
    asked for."""

    source: str
    nodes: int
    alike: tuple[str, ...]
    classes: tuple[NodeClass, ...] = ()
    unread: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()
    judged: tuple[Judged, ...] = ()
