"""Whether a placement group fits a Ray cluster, by its strategy: the nodes as they would be without anybody on them.

``src/ray/raylet/scheduling/policy/bundle_scheduling_policy.cc``"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Resources = Mapping[str, float]
# Ray counts resources in ten-thousandths.
_SMALLEST = 1e-4


def fits(bundles: Sequence[Resources], strategy: str, nodes: Sequence[Resources]) -> bool | None:
    """Whether all bundles find a place; None where that would take long to know. PACK and SPREAD prefer few or many
    nodes and take what there is; STRICT_PACK needs one node for all, STRICT_SPREAD one for each."""
    if strategy == "STRICT_PACK":
        return any(_holds(node, _sum(bundles)) for node in nodes)
    if strategy == "STRICT_SPREAD":
        return _matched(bundles, nodes)
    return _shared_out(bundles, nodes)


def _holds(node: Resources, asked: Resources) -> bool:
    return all(node.get(name, 0.0) + _SMALLEST / 2 >= amount for name, amount in asked.items())


def _sum(bundles: Sequence[Resources]) -> dict[str, float]:
    total: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _matched(bundles: Sequence[Resources], nodes: Sequence[Resources]) -> bool:
    """Whether every bundle gets a node of its own: a matching, grown bundle by bundle along augmenting paths."""
    holder: dict[int, int] = {}

    def seat(bundle: int, tried: set[int]) -> bool:
        for number, node in enumerate(nodes):
            if number not in tried and _holds(node, bundles[bundle]):
                tried.add(number)
                if number not in holder or seat(holder[number], tried):
                    holder[number] = bundle
                    return True
        return False

    return len(bundles) <= len(nodes) and all(seat(bundle, set()) for bundle in range(len(bundles)))


def _shared_out(bundles: Sequence[Resources], nodes: Sequence[Resources]) -> bool | None:
    """Whether the bundles can be shared out over the nodes: the largest first, each where least is left. Where that
    fails and the bundles differ, another order might do."""
    free = [dict(node) for node in nodes]
    for bundle in sorted(bundles, key=lambda one: -max(one.values(), default=0.0)):
        able = [node for node in free if _holds(node, bundle)]
        if not able:
            alike = all(other == bundle for other in bundles)
            alone = any(_holds(node, bundle) for node in nodes)
            enough = _holds(_sum(nodes), _sum(bundles))
            return False if alike or not alone or not enough else None
        tightest = min(able, key=lambda node: sum(node.get(name, 0.0) - amount for name, amount in bundle.items()))
        for name, amount in bundle.items():
            tightest[name] = tightest.get(name, 0.0) - amount
    return True
