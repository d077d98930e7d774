"""What checks of a plan share: getting at the plan, and citing its settings as evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotChecked
from rldoctor.model import Evidence
from rldoctor.plan.model import Form, Given, RolloutPlan, Setting, Source
from rldoctor.plan.vocabulary import plain

# Behind a setting that nobody gave.
DEFAULT = " (default)"
# Between what a file has and what follows from it.
HENCE = ", so "
# Options with longer values are cited by the value that was read.
_LONG = 120


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
    return Evidence(
        text=_text(plan, option, setting, name), source=setting.file, line=setting.line, setting=setting.key or option
    )


def _text(plan: RolloutPlan, option: str, setting: Setting, name: str) -> str:
    if setting.unknown is not None:
        return f"{name} = unknown: {setting.unknown}"
    origin = {
        Source.GIVEN: "",
        Source.ENVIRONMENT: "",
        Source.DEFAULT: DEFAULT,
        Source.DERIVED: f" ({setting.how})" if setting.how else " (derived)",
    }[setting.source]
    if setting.source is Source.GIVEN and setting.form is Form.OPTION and not setting.path:
        return as_option(name, setting)
    # What the file says for this very option, and what it comes to.
    own = [one for one in plan.given if one.option == option and (one.file, one.line) == (setting.file, setting.line)]
    if setting.source is Source.DERIVED and own and own[0].value != setting.value:
        stands = cite_given(replace(own[0], key=setting.key or own[0].key)).text
        return f"{stands}, taken for {_written(plan, option, setting)}{origin}"
    if setting.source is Source.DERIVED and not own and (stood := _stood(plan, setting)) is not None:
        return f"{cite_given(stood).text}{HENCE}{name} = {setting.value}{origin}"
    # A value inside a JSON text or a dictionary has names of its own.
    is_given = setting.source in (Source.GIVEN, Source.ENVIRONMENT)
    within = f" {'.'.join(setting.path)}" if setting.path and is_given else ""
    return f"{name}{within} = {_written(plan, option, setting)}{origin}"


def _stood(plan: RolloutPlan, setting: Setting) -> Given | None:
    """What the file has in the place from which a setting is derived."""
    place = (setting.key, setting.file, setting.line)
    return next((one for one in plan.given if (one.key, one.file, one.line) == place), None)


def cite_given(one: Given) -> Evidence:
    """A native setting as it stands in its file."""
    flag = one.form is Form.OPTION and one.value is True
    text = one.key if flag else f"{one.key} {one.value}" if one.form is Form.OPTION else f"{one.key} = {one.value}"
    return Evidence(text=text, source=one.file, line=one.line or None, setting=one.key)


def in_cells(plan: RolloutPlan | None, lines: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """The evidence with the cell of a notebook in which each line stands: editors show cells, no lines of the file."""
    if plan is None or not plan.cells:
        return lines

    def placed(one: Evidence) -> Evidence:
        before = [number for first, number in plan.cells if one.source == plan.file and first <= (one.line or 0)]
        return replace(one, text=f"{one.text} (cell {before[-1]})") if before else one

    return tuple(map(placed, lines))


def as_option(name: str, setting: Setting) -> str:
    """An option as its file has it, ``--num_generations 8``, a flag without its value; behind a variable what it holds:
    ``--num_generations $N (= 8)``."""
    raw = setting.raw or ""
    if not raw or "\n" in raw or len(raw) > _LONG:
        return f"{name} {setting.value}"
    return f"{raw} (= {setting.value})" if "$" in raw else raw


def _written(plan: RolloutPlan, option: str, setting: Setting) -> Any:
    """The value as the file or the framework's default has it, where it is one that the framework calls otherwise
    (``mode=async``)."""
    if setting.source is Source.DEFAULT and setting.raw:
        return setting.raw
    if setting.source is not Source.GIVEN or setting.path:
        return setting.value
    place = (option, setting.key, setting.file, setting.line)
    given = (one.value for one in plan.given if (one.option, one.key, one.file, one.line) == place)
    return next((value for value in given if isinstance(value, str)), setting.value)
