"""How a framework shows the completions that it sampled: in a table of its log, or in records of a file."""

from __future__ import annotations

import re
from typing import ClassVar

from rldoctor.frameworks.metrics import Taken
from rldoctor.records import dataclass

MOST_ROWS = 4096
MOST_CHARACTERS = 4096


@dataclass(frozen=True)
class Sample:
    """One completion. ``whole`` is false where the log shows only a part of it."""

    prompt: str
    completion: str
    whole: bool = True


class Table:
    """A table over several lines. ``OPENING`` finds its first line and, as the first group, the step."""

    OPENING: ClassVar[re.Pattern[str]]

    def __init__(self, step: int) -> None:
        self.step = step
        self.samples: list[Sample] = []

    def feed(self, text: str) -> Taken:
        """Takes the next line of the same process into ``samples``."""
        raise NotImplementedError


def shown(value: object) -> str:
    """A prompt or a completion as a text; conversations are lists."""
    return value if isinstance(value, str) else repr(value)
