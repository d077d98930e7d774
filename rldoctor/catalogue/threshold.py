"""Numbers from which on a check speaks, which a project may set otherwise (``[thresholds.CODE]`` in its settings)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.case import Case


@dataclass(frozen=True)
class Threshold:
    """One number of a check: its name in the settings, its value where they are silent, what it ``says``, with the
    unit, and the most that it can be."""

    code: str
    name: str
    usual: float
    says: str
    most: float = math.inf

    def of(self, case: Case) -> float:
        """The value that holds for a case."""
        return case.thresholds.get(f"{self.code}.{self.name}", self.usual)
