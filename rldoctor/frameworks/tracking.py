"""Where a framework hands the metrics of a step to whoever listens in its own process."""

from __future__ import annotations

from enum import Enum

from rldoctor.records import dataclass


class Door(Enum):
    """What a framework takes a listener as.

    ``LOGGERS``: a class whose instances keep their loggers, by name or in a list; each has ``log(data=..., step=...)``.
    ``CALLBACKS``: a list of callbacks for transformers' trainers. ``MAKERS``: functions of (arguments, trainer) that
    make such a callback, by the name under which a launch asks for it."""

    LOGGERS = "loggers"
    CALLBACKS = "callbacks"
    MAKERS = "makers"


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """``module`` holds ``name``, which is a ``door``; of ``LOGGERS`` the instances keep them in ``attribute``. A
    release that has no such module has another door, or none."""

    module: str
    name: str
    door: Door
    attribute: str = ""
