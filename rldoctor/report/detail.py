"""How much a report for a person shows."""

from __future__ import annotations

from enum import Enum


class Detail(Enum):
    """``-q``, neither, ``-v``."""

    FINDINGS = "findings only"
    USUAL = "one screen"
    ALL = "every check"
