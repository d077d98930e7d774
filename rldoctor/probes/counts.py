"""Settings that count something, whatever form a launch gives them in."""

from __future__ import annotations

from typing import Any

from rldoctor.plan.model import RolloutPlan


def count(plan: RolloutPlan, name: str) -> int | None:
    """A setting that counts something, also one that is given as text, or None where it is absent or no count; other
    checks say what is wrong with it."""
    value = whole(plan.value(name))
    return value if value is not None and value > 0 else None


def whole(value: Any) -> int | None:
    """A whole number, also one that is given as text."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
