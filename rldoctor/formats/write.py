"""One change of one file, as the editors of the formats make it."""

from __future__ import annotations

from rldoctor.plan.model import Form
from rldoctor.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Write:
    """How to put one spelled edit into a file: the option, override, YAML path, keyword or variable ``key`` gets
    ``value`` (bare text, quoted when it is written; None for a flag). ``line`` is where it stands, or where its command
    or call starts; ``path`` leads into a JSON value of ``key``; ``group`` names the command or call; ``remove`` takes
    it out, ``rename`` gives it another name and keeps its value."""

    form: Form
    file: str
    line: int
    key: str
    value: str | None = None
    path: tuple[str, ...] = ()
    group: str = ""
    remove: bool = False
    append: str = ""
    rename: str | None = None


class CannotEdit(Exception):  # noqa: N818 - it reads as what it says
    """Raised by the editors where a change cannot be made safely; the message is the reason."""
