"""Launches of one file that run at the same time: which one another is, and how two are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor.api import Fix, RolloutPlan


def of_one_loop(plan: RolloutPlan, other: Mapping[str, Any]) -> bool:
    """Whether both are rounds of one loop: the same text starts them."""
    return (plan.file, plan.line) == (other["file"], other["line"])


def named(plan: RolloutPlan, other: Mapping[str, Any], kind: str) -> str:
    """The other one, by its line or as an earlier round."""
    which = (
        f"the {kind} of an earlier round of the same loop"
        if of_one_loop(plan, other)
        else f"the {kind} of line {other['line']}"
    )
    return f"{which}, still running in the background,"


def counted_up(plan: RolloutPlan, other: Mapping[str, Any], number: int, what: str, fix: Fix) -> Fix:
    """The fix where two lines start them; in a loop the one text has to give each round a number of its own."""
    if not of_one_loop(plan, other):
        return fix
    return Fix(title=f"let {what} count up with the loop: $(({number} + ROUND)), where ROUND is 0, 1, ...")
