"""What checks of a plan share: getting at the plan, and citing its settings as evidence."""

from __future__ import annotations

from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotChecked
from rldoctor.model import Evidence
from rldoctor.plan.model import RolloutPlan, Setting, Source
from rldoctor.plan.vocabulary import plain

# Behind a setting that nobody gave.
DEFAULT = " (default)"


def plan_of(case: Case) -> RolloutPlan:
    """The plan of a case whose ``needs`` name one."""
    if case.plan is None:
        raise NotChecked("there is no launch file", how="rldoctor check LAUNCHFILE")
    return case.plan


def cite(plan: RolloutPlan, *options: str) -> tuple[Evidence, ...]:
    """One line of evidence for each of the options that the plan has: native name, value, and where it stands."""
    found = ((option, plan.get(option)) for option in options)
    return tuple(
        _line(plan, option, setting)
        for option, setting in found
        if setting is not None and not _is_idle(option, setting)
    )


def _is_idle(option: str, setting: Setting) -> bool:
    """Whether this is a default on which nothing rests: unset, left to the engine, or ranks that are not divided."""
    if setting.source is not Source.DEFAULT or setting.unknown is not None:
        return False
    return setting.value in (None, "auto") or (setting.value == 1 and option.endswith("_parallel_size"))


def _line(plan: RolloutPlan, option: str, setting: Setting) -> Evidence:
    # What is derived carries the key of the setting that it was derived from.
    name = plain(option) if setting.source is Source.DERIVED else setting.key or plain(option)
    if setting.unknown is not None:
        return Evidence(text=f"{name} = unknown: {setting.unknown}", source=setting.file, line=setting.line)
    origin = {
        Source.GIVEN: "",
        Source.ENVIRONMENT: "",
        Source.DEFAULT: DEFAULT,
        Source.DERIVED: f" ({setting.how})" if setting.how else " (derived)",
    }[setting.source]
    return Evidence(text=f"{name} = {_written(plan, option, setting)}{origin}", source=setting.file, line=setting.line)


def _written(plan: RolloutPlan, option: str, setting: Setting) -> Any:
    """The value as the file has it, where it is one that the framework calls otherwise (``mode=async``)."""
    if setting.source is not Source.GIVEN or setting.path:
        return setting.value
    place = (option, setting.key, setting.file, setting.line)
    given = (one.value for one in plan.given if (one.option, one.key, one.file, one.line) == place)
    return next((value for value in given if isinstance(value, str)), setting.value)
