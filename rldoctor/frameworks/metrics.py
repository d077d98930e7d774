"""How a framework logs its training steps: the names that it uses, and the forms in which it prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.frameworks.samples import Sample, Table

_PAIR = re.compile(
    r"""(['"])([\w ./()@:\-]{1,100})\1:\s*"""
    r"""('[^'\n]{0,64}'|"[^"\n]{0,64}"|(?:np\.\w+|tensor|array)\([^)]{0,64}\)|[^\s,}\]]{1,64})"""
)


def pairs(text: str) -> dict[str, str]:
    """The quoted names of a printed dictionary with the text of their values, whatever else stands in it."""
    return {name: value for _, name, value in _PAIR.findall(text)}


class Taken(Enum):
    """What a block did with a line: not its own (the block stays open), taken, taken as its last, or the block had
    ended before it."""

    NO = "no"
    YES = "yes"
    LAST = "last"
    ENDED = "ended"


class Block:
    """A record over several lines. ``OPENING`` finds its first line and, as the first group, the step. With
    ``SCATTERED`` other output may stand between its lines."""

    OPENING: ClassVar[re.Pattern[str]]
    SCATTERED: ClassVar[bool] = False

    def __init__(self, step: int) -> None:
        self.step = step
        self.record: dict[str, Any] = {}

    def feed(self, text: str) -> Taken:
        """Takes the next line of the same process into ``record``, native name to value."""
        raise NotImplementedError


@dataclass(frozen=True)
class Line:
    """A record in one line: where ``pattern`` finds one, ``read`` makes native names and values of its group
    ``record``; its group ``step``, where it has one, is the step."""

    pattern: re.Pattern[str]
    read: Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """``source`` is where the names were read. ``names`` has one row per line: native name, canonical name; of two
    natives of one canonical name the first is preferred, and ``off`` marks a metric that is logged as 0 while its
    feature is off, so that a 0 says nothing (``off:NAME``: unless NAME stands beside it). ``like`` is the framework
    whose names it has where it has none of its own.

    ``tables`` show sampled completions in a log, ``samples`` make them of a record of a JSON-lines file with some.

    ``markers`` begin names that only this framework logs. ``literals`` are texts of which every line with a record, or
    before one, has one; ``marks`` is an expression that those lines match without their prefixes."""

    source: str
    names: str = ""
    like: str = ""
    markers: tuple[str, ...] = ()
    literals: tuple[str, ...] = ()
    marks: str = ""
    lines: tuple[Line, ...] = ()
    blocks: tuple[type[Block], ...] = ()
    tables: tuple[type[Table], ...] = ()
    samples: tuple[Callable[[Mapping[str, Any]], list[Sample] | None], ...] = ()
