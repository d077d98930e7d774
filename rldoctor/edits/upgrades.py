"""Installs that a fix asks for, held against what is there: a bare lower bound lets pip take the newest release, which
may ask for other releases of everything, or have dropped the launch's options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile

from rldoctor.case import Case, Distribution
from rldoctor.knowledge.releases import MOVES_WITH_VLLM, acceptable, as_specifier
from rldoctor.knowledge.requirements import hypothetical, identity, needs_of, present_of
from rldoctor.model import Fix
from rldoctor.versions import parsed, specifiers

# One requirement that pip is to install, without options.
_INSTALL = re.compile(
    r"(?P<pip>(?:\S+ -m )?pip install )(?P<quote>['\"]?)(?P<name>[A-Za-z][\w.-]*)(?P<specifier>>[^'\" ]*)(?P=quote)"
)


def fitting(case: Case, fix: Fix) -> Fix:
    """The fix with every such command bounded to the nearest releases that go together with the packages there; where
    there are none it says which packages have to move with it."""
    if case.packages is None or not any("pip install" in command for command in fix.commands):
        return fix
    commands: list[str] = []
    effects = [fix.side_effects] if fix.side_effects else []
    for command in fix.commands:
        found = _INSTALL.fullmatch(command)
        bounded, more = _bounded(case, found["name"], found["specifier"]) if found else (None, "")
        commands.append(f"{found['pip']}'{bounded}'" if found and bounded else command)
        effects += [more] if more else []
    return replace(fix, commands=tuple(commands), side_effects="; ".join(effects) or None)


def _bounded(case: Case, name: str, specifier: str) -> tuple[str | None, str]:
    """The requirement with both of its ends, None where it is well as it stands; and what has to change with whichever
    release it names: packages, or options of the launch."""
    wanted = specifiers(specifier)
    offered = tuple(version for version in acceptable(case, name, ()) if wanted.contains(version))
    present = present_of(case.packages) if case.packages is not None else {}
    against = {version: _against(case, present, name, version) for version in offered}
    fits = [version for version in offered if not against[version]]
    if not fits:
        moved = sorted(against[offered[0]]) if offered else []
        verb = "has" if len(moved) == 1 else "have"
        return None, f"{_listed(moved)} {verb} to move with it (rldoctor compat)" if moved else ""
    dropped = _dropped(case, name, fits)
    least = min(dropped.values(), key=len)
    fits = [version for version in fits if dropped[version] == least]
    # What is there moves as little as it may: a new major release drops options. What is new comes as it is today.
    major = _major(fits[0] if name in present else fits[-1])
    start = next(number for number, version in enumerate(offered) if version in fits and _major(version) == major)
    block = tuple(takewhile(lambda version: version in fits and _major(version) == major, offered[start:]))
    gone = f"it no longer has the launch's {_listed(least)}" if least else ""
    return (None if block[-1] == offered[-1] else as_specifier(name, block)), gone


def _against(case: Case, present: Mapping[str, Distribution], name: str, version: str) -> set[str]:
    """The packages present that a release does not go with: what it demands of them, or they of it."""
    along = MOVES_WITH_VLLM if name == "vllm" else frozenset()
    demanded = (d for d in hypothetical(case, name, version) if d.on in present and d.on not in along)
    mine = {d.on for d in demanded if not d.admits(present[d.on].version) and not d.tolerates(present[d.on].version)}
    return mine | {identity(d.by) for d in needs_of(case).on(name) if d.by.name != name and not d.admits(version)}


def _dropped(case: Case, name: str, versions: Iterable[str]) -> dict[str, list[str]]:
    """The options of the launch that each of these releases of its framework no longer has."""
    from rldoctor.frameworks import by_name
    from rldoctor.frameworks.option_table import OptionTable

    plan = case.plan
    dialect = by_name(plan.dialect or plan.framework) if plan is not None else None
    if plan is None or dialect is None or dialect.owner != name:
        return {version: [] for version in versions}
    try:
        table = OptionTable.load(name)
    except KeyError:
        return {version: [] for version in versions}
    here = table.at(plan.version)
    known = list(dict.fromkeys(one.key for one in plan.given if here.known(one.key) is True))
    there = ((version, table.at(version)) for version in versions)
    return {version: [key for key in known if options.known(key) is False] for version, options in there}


def _major(version: str) -> int | None:
    found = parsed(version)
    return found.major if found is not None else None


def _listed(names: list[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last
