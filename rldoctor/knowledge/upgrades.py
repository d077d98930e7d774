"""Installs that a fix asks for, held against what is there: a bare lower bound lets pip take the newest release, which
may ask for other releases of everything, or have dropped the launch's options."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from rldoctor.case import Case
from rldoctor.knowledge.releases import MOVES_WITH_VLLM, acceptable, as_specifier
from rldoctor.knowledge.requirements import hypothetical, identity, needs_of
from rldoctor.model import Fix
from rldoctor.versions import parsed

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
    moved: list[str] = []
    for command in fix.commands:
        found = _INSTALL.fullmatch(command)
        bounded, others = _bounded(case, found["name"], found["specifier"]) if found else (None, ())
        commands.append(f"{found['pip']}'{bounded}'" if found and bounded else command)
        moved += others
    moves = (
        f"{_listed(moved)} {'has' if len(moved) == 1 else 'have'} to move with it (rldoctor compat)" if moved else ""
    )
    effects = "; ".join(text for text in (fix.side_effects, moves) if text)
    return replace(fix, commands=tuple(commands), side_effects=effects or None)


def _bounded(case: Case, name: str, specifier: str) -> tuple[str | None, tuple[str, ...]]:
    """The requirement with both of its ends, None where it is well as it stands; and the packages that have to move
    with whichever release it names."""
    from packaging.specifiers import SpecifierSet

    wanted = SpecifierSet(specifier)
    offered = tuple(version for version in acceptable(case, name, ()) if wanted.contains(version))
    against = {version: _against(case, name, version) for version in offered}
    fits = [version for version in offered if not against[version]]
    if not fits:
        return None, tuple(sorted(against[offered[0]])) if offered else ()
    # What is there moves as little as it may: a new major release drops options. What is new comes as it is today.
    here = case.packages is not None and any(identity(d) == name for d in case.packages.distributions)
    major = _major(fits[0] if here else fits[-1])
    start = next(number for number, version in enumerate(offered) if version in fits and _major(version) == major)
    block = tuple(takewhile(lambda version: version in fits and _major(version) == major, offered[start:]))
    return (None if block[-1] == offered[-1] else as_specifier(name, block)), ()


def _against(case: Case, name: str, version: str) -> set[str]:
    """The packages there that a release does not go with: what it demands of them, or they of it."""
    assert case.packages is not None
    present = {identity(d): d for d in reversed(case.packages.distributions)}
    along = MOVES_WITH_VLLM if name == "vllm" else frozenset()
    demanded = (d for d in hypothetical(case, name, version) if d.on in present and d.on not in along)
    mine = {d.on for d in demanded if not d.admits(present[d.on].version) and not d.tolerates(present[d.on].version)}
    return mine | {identity(d.by) for d in needs_of(case).on(name) if d.by.name != name and not d.admits(version)}


def _major(version: str) -> int | None:
    found = parsed(version)
    return found.major if found is not None else None


def _listed(names: list[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last
