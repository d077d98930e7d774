"""Launches of one file that run at the same time: which one another is, and how two are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor.api import Fix, RolloutPlan


def of_one_line(plan: RolloutPlan, other: Mapping[str, Any]) -> bool:
    """Whether one text starts both: in a loop, in a function, behind xargs."""
    return (plan.file, plan.line) == (other["file"], other["line"])


def named(plan: RolloutPlan, other: Mapping[str, Any], kind: str) -> str:
    """The other one, by its line or as an earlier one of the same."""
    same = of_one_line(plan, other)
    which = f"the {kind} that the same line started before" if same else f"the {kind} of line {other['line']}"
    return f"{which}, still running in the background,"


def counted_up(plan: RolloutPlan, other: Mapping[str, Any], number: int, what: str, fix: Fix) -> Fix:
    """The fix where two lines start them; one text has to give each start a number of its own."""
    if not of_one_line(plan, other):
        return fix
    return Fix(title=f"let {what} count up with each start: $(({number} + N)), where N is 0, 1, ...")
