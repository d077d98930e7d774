"""The packages that a rollout stands on, with what the others demand of each."""

from __future__ import annotations

from rldoctor.case import Case, Distribution
from rldoctor.exhibits.model import Version
from rldoctor.knowledge.requirements import Demand, Needs, identity, is_framework, matters, needs_of

_FIRST = ("vllm", "torch", "transformers", "ray")


def of(case: Case) -> tuple[Version, ...]:
    """Frameworks first, then the engine and what it stands on, then the rest by name."""
    if case.packages is None:
        return ()
    needs = needs_of(case)
    first = {d.name: d for d in reversed(case.packages.distributions) if matters(d)}
    rows = [_row(one, needs) for one in sorted(first.values(), key=_order)]
    gone = [
        Version(name=name, version="?", unknown=reason)
        for name, reason in sorted(case.packages.broken.items())
        if name in _FIRST
    ]
    return (*rows, *gone)


def _order(one: Distribution) -> tuple[bool, int, str]:
    name = identity(one)
    return not is_framework(one), _FIRST.index(name) if name in _FIRST else len(_FIRST), one.name


def _row(one: Distribution, needs: Needs) -> Version:
    demands = [
        (demand, demand.admits(one.version) or demand.tolerates(one.version)) for demand in needs.on(identity(one))
    ]
    return Version(
        name=one.name,
        version=one.version,
        met=tuple(_said(demand) for demand, met in demands if met),
        refused=tuple(_said(demand) for demand, met in demands if not met),
        unknown=needs.undeclared.get(identity(one), ""),
    )


def _said(demand: Demand) -> str:
    return f"{demand.by.name} {demand.by.version}: {demand.specifier}"
