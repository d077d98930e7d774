"""Puts a group's own options on top of those of the groups it includes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rldoctor.case import Unknown
from rldoctor.tables.options.model import INHERITED, Option, Options
from rldoctor.tables.options.optionset import OptionSet
from rldoctor.tables.options.parts import Layout

# Gives the set of a group, named with its framework where that is another one.
Include = Callable[[str | None, str], OptionSet]


def combined(
    layout: Layout,
    group: str,
    own: Options,
    include: Include,
    *,
    source: str,
    uncertain: dict[str, Unknown] | None = None,
    gap: Unknown | None = None,
    outside: Unknown | None = None,
    worded: Callable[[Option], Option] | None = None,
) -> OptionSet:
    """The options of ``group`` from its ``own`` ones and what ``include`` gives for the groups below it.

    A part that should be there and is not leaves a gap: then nothing can be called unknown. So does a ``gap``
    that is there from the start, and a release that is ``outside`` of all that was read. ``worded`` gives an own option
    the words that take long to find."""
    description = layout.groups[group]
    options: dict[str, Option] = {}
    disputed: dict[str, Unknown] = {}
    gap = gap or outside
    included: list[OptionSet] = []
    if description.parts and not own and not uncertain:
        gap = gap or Unknown(reason=f"{source} has no {group}")
    for named in description.includes:
        framework, _, inner = named.removeprefix("?").rpartition(":")
        below = include(framework or None, inner)
        included.append(below)
        options.update(below)
        disputed.update(below.uncertain)
        if not named.startswith("?"):
            gap = gap or below.gap
    for name, option in own.items():
        disputed.pop(name, None)
        declared = _over(options.get(name), option)
        if declared is not None:
            options[name] = declared
    for name, reason in (uncertain or {}).items():
        options.pop(name, None)
        disputed[name] = reason

    def with_words(option: Option) -> Option:
        found: Option | None = None
        for below in included:
            found = below.worded(below[option.name]) if option.name in below else found
        if option.name in own and worded is not None:
            found = _over(found, worded(own[option.name]))
        return found or option

    return OptionSet(
        options,
        source=source,
        uncertain=disputed,
        gap=gap,
        outside=outside,
        open_ended=description.open,
        rejects=description.rejects,
        abbreviations=description.abbreviations,
        validates=description.validates,
        closed=description.closed,
        worded=with_words if worded is not None else None,
    )


def _over(below: Option | None, option: Option) -> Option | None:
    """An option on top of the one below it; one that is declared anew is looked up where that is."""
    if option.type == INHERITED:
        return None if below is None else replace(below, names=option.names, closed=option.closed)
    if option.names is None and below is not None and below.names is not None:
        return replace(option, names=below.names, closed=below.closed)
    return option
