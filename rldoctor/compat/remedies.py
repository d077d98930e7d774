"""Turns versions that go together into changes: the fewest, each with its reason, and the command that makes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from rldoctor.case import Case, Distribution
from rldoctor.case.lookup import find
from rldoctor.compat.model import Change, Clash, Remedy, Versions
from rldoctor.compat.prune import fewest, mixed
from rldoctor.compat.resolver import Impossible, Solver
from rldoctor.compat.world import MAIN, World
from rldoctor.frameworks import packages
from rldoctor.knowledge.known_issues import known_issues
from rldoctor.knowledge.releases import published_name
from rldoctor.tables import declarations
from rldoctor.versions import is_before, parsed

# An attempt with packages held where they are is one of several and is given up early.
_ROUNDS = 80
# Extensions compiled against the torch that was there, which nothing pins.
_COMPILED = ("flash-attn", "transformer-engine", "apex", "causal-conv1d", "mamba-ssm")


def remedies(world: World) -> tuple[Remedy, ...]:
    """Different sets of changes, the one with the fewest first. Raises :class:`Impossible`."""
    found: dict[frozenset[tuple[str, str]], Remedy] = {}
    solver = Solver(world)
    present = [name for name in MAIN if name in world.versions]
    # What is held: all but one, then only one of those that a person chose.
    held = [frozenset(present) - {name} for name in present] + [frozenset({name}) for name in present]
    for kept in dict.fromkeys(held):
        together = {name: world.versions[name] for name in kept}
        if any(clash.involved <= kept for clash in world.clashes(together)):
            continue
        try:
            remedy = _remedy(world, solver.resolve(kept, _ROUNDS))
        except Impossible:
            continue
        found.setdefault(_key(remedy), remedy)
    if not found:
        remedy = _remedy(world, solver.resolve())
        found[_key(remedy)] = remedy
    return tuple(sorted(found.values(), key=_cost))


def _cost(remedy: Remedy) -> tuple[int, int]:
    """How many packages move, and how many of them back."""
    back = sum(change.old is not None and is_before(change.new, change.old) for change in remedy.changes)
    return len(remedy.changes), back


def _key(remedy: Remedy) -> frozenset[tuple[str, str]]:
    return frozenset((change.package, change.new) for change in remedy.changes)


def _remedy(world: World, solution: Versions) -> Remedy:
    names = fewest(world.versions, solution, world.clashes)
    after = mixed(world.versions, solution, names)
    changes = tuple(_change(world, after, name) for name in sorted(names, key=_importance))
    python = shlex.quote(world.packages.executable or "python")
    stays = (f"{d.name} {d.version}" for name, d in world.versions.items() if name in MAIN and name not in names)
    return Remedy(
        changes=changes,
        command=f"{python} -m pip install " + " ".join(f'"{change.spelled}"' for change in changes),
        stays=tuple(stays),
        brings=tuple(f"{d.name} {d.version}" for name, d in solution.items() if name not in after),
        notes=tuple(_notes(world, after, changes)),
    )


def _importance(name: str) -> tuple[int, str]:
    return (MAIN.index(name) if name in MAIN else len(MAIN), name)


def _change(world: World, after: Versions, name: str) -> Change:
    """The reasons are what breaks with all the other changes made and this one left out."""
    old = world.versions.get(name)
    without = {other: d for other, d in after.items() if other != name}
    if old is not None:
        without[name] = old
    new = after[name]
    different: dict[tuple[str, str], Clash] = {}
    for clash in world.clashes(without):
        different.setdefault((clash.asks, clash.wants), clash)
    return Change(
        package=new.name,
        old=old.version if old else None,
        new=new.version,
        spelled=_spelled(new),
        reasons=tuple(sorted(different.values(), key=lambda clash: _weight(clash, old))),
    )


def _weight(clash: Clash, old: Distribution | None) -> tuple[bool, bool]:
    """What is known to break comes first, then what others demand of a package, then what it demands itself."""
    return clash.reason is None, old is not None and clash.asks == f"{old.name} {old.version}"


def _spelled(new: Distribution) -> str:
    release = declarations.release(published_name(new), new.version)
    if release is None or release.published:
        return f"{new.name}=={new.version}"
    from rldoctor.refresh.releases import REPOSITORIES

    repository = REPOSITORIES[new.name]
    version = parsed(new.version)
    tag = "" if version is None or version.is_devrelease else f"@{repository.tag}{release.version}"
    folder = PurePosixPath(repository.requirements).parent
    inside = f"#subdirectory={folder}" if folder.name else ""
    return f"{_distribution(new.name)} @ git+{repository.url}{tag}{inside}"


def _distribution(name: str) -> str:
    """What a package calls itself, where that is another name than it is known by here."""
    return next((package.installed_as for package in packages() if package.name == name), name)


def _notes(world: World, after: Versions, changes: tuple[Change, ...]) -> Iterator[str]:
    moved = {change.package for change in changes}
    for change in changes:
        label = (change.old or "").partition("+")[2]
        if change.new.endswith("+cpu"):
            yield f"{change.package} {change.new}: add PyTorch's index of builds without CUDA (--extra-index-url)"
        elif label:
            yield f"{change.package} {change.old} is a build labelled {label}: name its index to get that kind again"
    if "torch" in moved:
        for name in _COMPILED:
            found = find(world.packages, name)
            if found is not None and name not in moved and any(c.package == "torch" and c.old for c in changes):
                yield f"{name} {found.version} was compiled against the present torch: build it again"
    yield from _defects(world.case, world.versions, after)


def _defects(case: Case, before: Versions, after: Versions) -> Iterator[str]:
    """Known defects that the changes bring along."""
    present, moved = _with(case, before), _with(case, after)
    for issue in known_issues():
        bounded = "<" in issue.versions or issue.versions.startswith("==")
        if issue.severity != "note" and bounded and issue.covers(moved) and not issue.covers(present):
            yield f"known of {issue.package}{issue.versions}: {issue.symptom} ({issue.url})"


def _with(case: Case, versions: Versions) -> Case:
    assert case.packages is not None
    others = (d for d in case.packages.distributions if d.name not in {v.name for v in versions.values()})
    return replace(case, packages=replace(case.packages, distributions=(*versions.values(), *others)))
