"""Says which declarations exclude each other where no versions go together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from rldoctor.case import Distribution
from rldoctor.compat.candidates import candidates
from rldoctor.compat.model import Clash
from rldoctor.compat.resolver import Need
from rldoctor.compat.world import World
from rldoctor.knowledge.packages import FRAMEWORKS
from rldoctor.knowledge.requirements import Demand


def conflict(world: World, needs: tuple[Need, ...]) -> tuple[str, ...]:
    """One line for each contradiction between the packages that cannot move, or else between the frameworks as they
    are; where there is none so plain, the needs that the search failed on last."""
    unmoved = {name: found[0] for name in _names(world) if len(found := candidates(world, name)) == 1}
    present = {name: d for name, d in world.versions.items() if name in FRAMEWORKS or name in unmoved}
    for fixed in (unmoved, {**present, **unmoved}):
        lines = dict.fromkeys((*_direct(world, fixed), *_between(world, fixed)))
        if lines:
            return tuple(lines)
    last = dict.fromkeys(_says(need.demand) for need in needs if need.demand is not None)
    if last:
        return (f"excluding each other: {'; '.join(last)}",)
    return ("no versions were found that go together, within the steps that a search may take",)


def _names(world: World) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*world.wanted, *world.versions)))


def _direct(world: World, fixed: dict[str, Distribution]) -> Iterator[str]:
    for clash in world.clashes(fixed):
        if clash.involved <= fixed.keys():
            yield reported(clash)


def _between(world: World, fixed: dict[str, Distribution]) -> Iterator[str]:
    """Pairs of demands on a package of which no release meets both."""
    demands = [d for distribution in fixed.values() for d in world.demands(distribution) if d.on != "python"]
    for on in dict.fromkeys(demand.on for demand in demands if demand.on not in fixed):
        if on not in _names(world) and not any(world.adds(demand) for demand in demands if demand.on == on):
            continue
        releases = candidates(world, on)
        asked = [demand for demand in demands if demand.on == on]
        for demand in asked:
            if releases and not any(_meets(demand, release) for release in releases):
                yield f"{_says(demand)}, and no such release runs here (Python {world.packages.python})"
        for one, other in combinations(asked, 2):
            met = [any(_meets(demand, release) for release in releases) for demand in (one, other)]
            if all(met) and not any(_meets(one, release) and _meets(other, release) for release in releases):
                yield f"{_says(one)}; {_says(other)}: no release of {on} meets both"


def _meets(demand: Demand, release: Distribution) -> bool:
    return demand.admits(release.version) or demand.tolerates(release.version)


def reported(clash: Clash) -> str:
    """A clash as one line."""
    verb = "works only with" if clash.reason else "asks for"
    why = f" ({clash.reason})" if clash.reason else ""
    return f"{clash.asks} {verb} {clash.wants}{why}, {f'not {clash.has}' if clash.has else 'which is missing'}"


def _says(demand: Demand) -> str:
    return f"{demand.by.name} {demand.by.version} asks for {demand.on}{demand.specifier} ({demand.source})"
