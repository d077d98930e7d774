"""The tables: which torch, transformers, Python and CUDA belong to each vLLM, and which vLLM each framework accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from rldoctor.case import Distribution
from rldoctor.compat.model import Engine, Trainer, Versions
from rldoctor.compat.world import World
from rldoctor.knowledge.cuda import driver_for, toolkit_of
from rldoctor.knowledge.packages import FRAMEWORKS
from rldoctor.knowledge.releases import combined, published_name
from rldoctor.knowledge.requirements import Demand
from rldoctor.tables import declarations
from rldoctor.versions import parsed

_Row = TypeVar("_Row", Engine, Trainer)


def engines(world: World, name: str, versions: Versions) -> tuple[Engine, ...]:
    """Every release of vLLM (or of the build called ``name``), newest first, neighbours that differ in nothing as one
    row. ``obstacle`` says why a row does not go with the frameworks among ``versions``, this Python or this driver."""
    asked = [demand for by, d in versions.items() if by in FRAMEWORKS for demand in world.own(d)]
    present = versions.get("vllm")
    rows = (_engine(world, distribution, asked) for distribution in _releases(name))
    return tuple(_merged(rows, present.version if present and published_name(present) == name else None))


def trainers(world: World, name: str, versions: Versions) -> tuple[Trainer, ...]:
    """Every release of a framework, newest first, neighbours that differ in nothing as one row."""
    present = versions.get(name)
    published = published_name(present) if present else name
    rows = (_trainer(world, distribution) for distribution in _releases(published))
    return tuple(_merged(rows, present.version if present else None))


def _releases(name: str) -> Iterator[Distribution]:
    for release in reversed(declarations.releases(name)):
        found = parsed(release.version)
        if found is not None and not release.yanked and (not found.is_prerelease or not release.published):
            yield Distribution(name=name, version=release.version)


def _engine(world: World, vllm: Distribution, asked: list[Demand]) -> Engine:
    own = world.own(vllm)
    torch = next((d.specifier.removeprefix("==") for d in own if d.on == "torch" and d.exact), None)
    on_transformers = tuple(d for d in (*own, *asked) if d.on == "transformers")
    newest = _newest(world, "transformers", on_transformers)
    built = Distribution(name="torch", version=torch) if torch else None
    toolkit = toolkit_of(built) if built else None
    return Engine(
        first=vllm.version,
        last=vllm.version,
        torch=torch or _asked(own, "torch"),
        transformers=combined(on_transformers) if on_transformers else None,
        newest_transformers=newest,
        python=_asked(own, "python"),
        cuda=toolkit,
        driver=driver_for(toolkit) if toolkit else None,
        here=False,
        obstacle=_obstacle(world, vllm, built, asked, newest is None),
    )


def _newest(world: World, name: str, demands: tuple[Demand, ...]) -> str | None:
    """The newest release that meets all demands and that this Python runs."""
    return next(
        (
            release.version
            for release in reversed(declarations.releases(name))
            if all(demand.admits(release.version) for demand in demands) and world.runs(release.python)
            if not release.yanked and (found := parsed(release.version)) is not None and not found.is_prerelease
        ),
        None,
    )


def _obstacle(
    world: World, vllm: Distribution, torch: Distribution | None, asked: list[Demand], no_transformers: bool
) -> str | None:
    for demand in asked:
        if demand.on == "vllm" and not (demand.admits(vllm.version) or demand.tolerates(vllm.version)):
            return f"{demand.by.name} {demand.by.version}: vllm{demand.specifier}"
        if demand.on == "torch" and torch is not None and not demand.admits(torch.version):
            return f"{demand.by.name} {demand.by.version}: torch{demand.specifier}"
    if no_transformers:
        return "no transformers for all"
    if any(
        demand.involved == {"vllm"} for demand in world.clashes({"vllm": vllm}) if demand.asks.startswith(vllm.name)
    ):
        return f"Python {world.packages.python}"
    return "the driver" if torch is not None and world.beyond_driver(torch) else None


def _trainer(world: World, framework: Distribution) -> Trainer:
    own = world.own(framework)
    declared = [demand for demand in own if not demand.used]
    imports, beyond = _imports(own)
    return Trainer(
        first=framework.version,
        last=framework.version,
        vllm=_asked(declared, "vllm"),
        transformers=_asked(declared, "transformers"),
        torch=_asked(declared, "torch"),
        python=_asked(declared, "python"),
        here=False,
        imports=imports,
        beyond=beyond,
    )


def _imports(own: Iterable[Demand]) -> tuple[str | None, str | None]:
    """The releases of vLLM that have all that a framework imports, and those that lack something of it although the
    framework declares to accept them; None where nothing is known against any, or it declares no more."""
    asked = [demand for demand in own if demand.on == "vllm"]
    used = [demand for demand in asked if demand.used]
    if not used:
        return None, None
    releases = [release.version for release in reversed(list(_releases("vllm")))]
    fitting = [version for version in releases if all(demand.admits(version) for demand in used)]
    declared = [demand for demand in asked if not demand.used]
    beyond = [
        version
        for version in releases
        if declared and version not in fitting and all(demand.admits(version) for demand in declared)
    ]
    if not fitting:
        return None, None
    # What is older than the tables was not read, and what is younger may go on as it is.
    ends = {demand.specifier[0] for demand in used}
    imports = " to ".join((fitting[0], fitting[-1]))
    imports = imports if len(ends) == 2 else f"up to {fitting[-1]}" if "<" in ends else f"{fitting[0]} and later"
    return imports, " to ".join(dict.fromkeys((beyond[0], beyond[-1]))) if beyond else None


def _asked(demands: Iterable[Demand], on: str) -> str | None:
    found = tuple(demand for demand in demands if demand.on == on)
    return combined(found) if found else None


def _merged(rows: Iterable[_Row], present: str | None) -> Iterator[_Row]:
    def content(row: _Row) -> _Row:
        return replace(row, first="", last="")

    key: Callable[[_Row], _Row] = content
    for _, group in groupby(rows, key=key):
        block = list(group)
        here = present is not None and any(_same(row.last, present) for row in block)
        yield replace(block[0], first=block[-1].last, here=here)


def _same(release: str, installed: str) -> bool:
    return parsed(release) == parsed(installed.partition("+")[0])
