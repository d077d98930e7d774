"""A fix made as a launch's framework spells it."""

from __future__ import annotations

from rldoctor.edits.edit import apply, save
from rldoctor.frameworks import by_name
from rldoctor.frameworks.spelled import Spelling
from rldoctor.model import Edit
from rldoctor.plan.model import RolloutPlan


def spelled(plan: RolloutPlan, option: str, value: object) -> Spelling:
    dialect = by_name(plan.framework)
    assert dialect is not None
    return dialect.spell(Edit(option=option, value=value), plan)


def made(plan: RolloutPlan, option: str, value: object) -> str:
    """How the fix is spelled; the plan's files have it from now on."""
    spelling = spelled(plan, option, value)
    edited = apply([spelling])
    assert not edited.refused and edited.changed
    save(edited)
    return spelling.text


def is_made(plan: RolloutPlan, option: str, value: object) -> bool:
    """Whether the plan has the value, and making the fix once more changes nothing."""
    return plan.value(option) == value and apply([spelled(plan, option, value)]).changed == ()
