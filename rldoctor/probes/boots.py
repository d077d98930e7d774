"""The planner of live probes: as few engine boots as the due runs allow, each engine with the runs it can carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from rldoctor.catalogue.scenario import MINIATURE, Basis, Engine, Run, Scenario
from rldoctor.records import dataclass

# What a boot is expected to take up to its first tokens: imports, weights, the first compilation of kernels.
BOOT_SECONDS = 20.0
# What so many tokens of vocabulary add to it, and count for in scenarios.
BOOT_VOCABULARY_SECONDS, VOCABULARY = 20.0, 100_000


@dataclass(frozen=True)
class Asked:
    """One run of one scenario that is to be played somewhere; ``vocabulary`` is the model's that it is played on."""

    scenario: Scenario
    name: str
    run: Run
    vocabulary: int = 0

    @property
    def key(self) -> str:
        return f"{self.scenario.name}: {self.name}"

    @property
    def seconds(self) -> float:
        """What it is expected to take once its engine is up; one that is told how long takes so long."""
        usual = self.scenario.seconds + self.scenario.vocabulary_seconds * self.vocabulary / VOCABULARY
        return float(self.run.arguments.get("seconds", usual))


@dataclass
class Boot:
    """One engine: what it adds to the basis, and the runs that are played on it."""

    name: str
    kind: str
    replica: int
    options: dict[str, Any]
    environ: dict[str, str]
    fixed: bool
    reference: bool = False
    few_tokens: bool = False
    asked: list[Asked] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """What it is expected to take as a whole."""
        vocabulary = max((one.vocabulary for one in self.asked), default=0)
        boot = BOOT_SECONDS + BOOT_VOCABULARY_SECONDS * vocabulary / VOCABULARY
        return boot + sum(one.seconds for one in self.asked)


def plan_boots(asked: Iterable[Asked], basis: Basis) -> list[Boot]:
    """Puts the runs onto as few engines as they allow. The engine without anything added comes first: a fault that
    every engine has is then seen where nothing else can be its cause."""
    boots: list[Boot] = []
    for one in sorted(asked, key=_most_demanding_first):
        engine = one.run.engine
        takers = [boot for boot in boots if _takes(boot, engine, basis)]
        boot = min(takers, key=lambda boot: not _adds_nothing(boot, basis), default=None)
        if boot is None:
            boot = Boot("", engine.kind, engine.replica, {}, {}, engine.alone, engine.reference, engine.few_tokens)
            boots.append(boot)
        boot.options.update(engine.options)
        boot.environ.update(engine.environ)
        boot.asked.append(one)
    for boot in boots:
        # In what order runs were given does not matter, what may spoil the engine for others does. Of the others the
        # quickest come first: what cuts the engine's time short leaves the least out.
        boot.asked.sort(key=lambda one: (one.scenario.disturbs, one.scenario.level, one.seconds, one.key))
        boot.name = MINIATURE if _is_basis(boot, basis) else boot.asked[0].key
    return sorted(boots, key=lambda boot: (boot.name != MINIATURE, boot.reference, boot.replica, boot.name))


def _most_demanding_first(one: Asked) -> tuple[bool, int, str]:
    engine = one.run.engine
    return (not engine.alone, -len(engine.options) - len(engine.environ), one.key)


def _takes(boot: Boot, engine: Engine, basis: Basis) -> bool:
    kinds = ("kind", "replica", "reference", "few_tokens")
    same = all(getattr(boot, name) == getattr(engine, name) for name in kinds)
    if not same or (engine.alone and not boot.fixed):
        return False
    options, environ = {**basis.options, **boot.options}, {**basis.environ, **boot.environ}
    if engine.alone:
        return options == {**basis.options, **engine.options} and environ == {**basis.environ, **engine.environ}
    if boot.fixed:
        return _within(engine.options, options) and _within(engine.environ, environ)
    return _agree(engine.options, boot.options) and _agree(engine.environ, boot.environ)


def _is_basis(boot: Boot, basis: Basis) -> bool:
    return (
        _adds_nothing(boot, basis)
        and boot.replica == 0
        and boot.kind == "llm"
        and not (boot.reference or boot.few_tokens)
    )


def _adds_nothing(boot: Boot, basis: Basis) -> bool:
    return _within(boot.options, basis.options) and _within(boot.environ, basis.environ)


def _within(part: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    return all(name in whole and whole[name] == value for name, value in part.items())


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(name not in other or other[name] == value for name, value in one.items())
