"""One edit in a framework's own words."""

from __future__ import annotations

from rldoctor.formats.write import Write
from rldoctor.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """``text`` is what a person reads and can paste. Without a ``write`` it cannot be applied to a file: ``reason``
    says why. ``plain``: the framework has no words for it, or is not known."""

    text: str
    file: str | None = None
    line: int | None = None
    write: Write | None = None
    reason: str | None = None
    plain: bool = False
