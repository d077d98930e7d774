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
) -> OptionSet:
    """The options of ``group`` from its ``own`` ones and what ``include`` gives for the groups below it.

    A part that should be there and is not leaves a gap: then nothing can be called unknown. So does a ``gap``
    that is there from the start, and a release that is ``outside`` of all that was read."""
    description = layout.groups[group]
    options: dict[str, Option] = {}
    disputed: dict[str, Unknown] = {}
    gap = gap or outside
    if description.parts and not own and not uncertain:
        gap = gap or Unknown(reason=f"{source} has no {group}")
    for included in description.includes:
        framework, _, inner = included.removeprefix("?").rpartition(":")
        below = include(framework or None, inner)
        options.update(below)
        disputed.update(below.uncertain)
        if not included.startswith("?"):
            gap = gap or below.gap
    for name, option in own.items():
        disputed.pop(name, None)
        # One that is declared anew is looked up where the one below it is.
        above = options.get(name)
        if option.type == INHERITED:
            if above is not None:
                options[name] = replace(above, names=option.names, closed=option.closed)
            continue
        if option.names is None and above is not None and above.names is not None:
            option = replace(option, names=above.names, closed=above.closed)
        options[name] = option
    for name, reason in (uncertain or {}).items():
        options.pop(name, None)
        disputed[name] = reason
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
    )
