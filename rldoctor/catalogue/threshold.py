"""Numbers from which on a check speaks, which a project may set otherwise (``[thresholds.CODE]`` in its settings)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rldoctor.case import Case


@dataclass(frozen=True)
class Threshold:
    """One number of a check: its name in the settings, its value where they are silent, and what it ``says``, with the
    unit."""

    code: str
    name: str
    usual: float
    says: str

    def of(self, case: Case) -> float:
        """The value that holds for a case."""
        return case.thresholds.get(f"{self.code}.{self.name}", self.usual)
