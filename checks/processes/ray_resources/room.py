"""What nodes have and what groups lack, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rldoctor.api import Evidence, counted

from .placing import Group, Placement, Resources, holds, place, together

if TYPE_CHECKING:
    from rldoctor.api.hang import RayCluster

SHOWN = 6
WAYS = {"STRICT_SPREAD": ", each bundle on a node of its own", "STRICT_PACK": ", each on one node"}
_GIB = 1024**3


def said(resources: Mapping[str, float], only: Mapping[str, float] | None = None) -> str:
    """``8 GPU, 1 CPU``; memory in GiB."""
    names = [name for name in sorted(only or resources) if not name.startswith(("node:", "bundle_group"))]
    return ", ".join(_amount(name, resources.get(name, 0.0)) for name in names) or "nothing"


def listed(group: Group) -> str:
    """``2 placement groups of 8 bundles of 3 CPU, 1 GPU, each on one node``."""
    if group.strategy == "ACTOR":
        return f"{said(group.bundles[0])} for its own loop"
    bundles = f"{counted(len(group.bundles), 'bundle')} of {said(group.bundles[0])}"
    how = WAYS.get(group.strategy, "")
    if group.strategy == "STRICT_PACK":
        return f"{counted(group.count, 'placement group')} of {said(whole(group))}{how}"
    return f"{bundles}{how}" if group.count == 1 else f"{counted(group.count, 'placement group')} of {bundles}{how}"


def whole(group: Group) -> dict[str, float]:
    """What one group must find on one node: all of it where its strategy says so, else its largest bundle."""
    if group.strategy == "STRICT_PACK":
        return together(group.bundles)
    return dict(sorted(group.bundles, key=lambda bundle: (bundle.get("GPU", 0.0), sum(bundle.values())))[-1])


def largest(nodes: Sequence[Resources], asked: Mapping[str, float]) -> dict[str, float]:
    """The most of each resource that a node has."""
    return {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in asked}


def lacks(came: Placement, nodes: Sequence[Resources], *, free: bool = False) -> str:
    """Why a group finds no place on these nodes, by their number and what they have (or have ``free``)."""
    group = came.group
    assert group is not None  # it did not find a place
    has, alone = "has free" if free else "has", "" if group.strategy == "STRICT_PACK" else " for a bundle"
    hopeless = next((bundle for bundle in _parts(group) if not any(holds(node, bundle) for node in nodes)), None)
    if hopeless is not None:
        most = said(largest(nodes, hopeless))
        return f"no node {has} the {said(hopeless)}{alone} (a node {has} at most {most})"
    if group.strategy == "STRICT_SPREAD":
        able = sum(any(holds(node, bundle) for bundle in group.bundles) for node in nodes)
        if able < len(group.bundles):
            return f"{len(group.bundles)} nodes are needed, and {able} {has.replace('has', 'have')} what a bundle needs"
    if came.before and place([group], nodes).complete is not False:
        earlier = " and ".join(map(listed, came.before))
        return f"there is room for {listed(group)}, and not beside {earlier}"
    if group.count > 1:
        return f"there is room for {came.placed} of the {group.count} groups"
    total, asked = together(nodes), together(group.bundles)
    if not holds(total, asked):
        return f"the nodes together {has.replace('has', 'have')} {said(total, asked)} of {said(asked)}"
    return (
        "each bundle would fit by itself, and not as Ray takes them: the one with most GPUs first, on the node with "
        "most left"
    )


def nodes(cluster: RayCluster, group: Group) -> Iterator[Evidence]:
    """Each node with what it has of what is asked for, and what it lacks; those that are alike together."""
    asked = whole(group)
    texts: dict[str, list[str]] = {}
    free = cluster.free or cluster.nodes
    for node, left, address in zip(cluster.nodes, free, cluster.addresses or ("",) * len(free), strict=True):
        short = {name: amount - left.get(name, 0.0) for name, amount in asked.items()}
        missing = {name: amount for name, amount in short.items() if amount > 1e-4}
        text = f"has {said(node, asked)}" + (f", free {said(left, asked)}" if cluster.free else "")
        texts.setdefault(text + (f": {said(missing)} short" if missing else ""), []).append(address)
    for text, addresses in list(texts.items())[:SHOWN]:
        names = ", ".join(address for address in addresses[:3] if address)
        who = f"node {names}" if names and len(addresses) == 1 else "a node"
        if len(addresses) > 1:
            who, text = f"{len(addresses)} nodes" + (f" ({names})" if names else ""), text.replace("has", "have", 1)
        yield Evidence(text=f"{who} {text}", source=f"Ray at {cluster.address}")


def _parts(group: Group) -> list[Resources]:
    return [whole(group)] if group.strategy == "STRICT_PACK" else list(group.bundles)


def _amount(name: str, amount: float) -> str:
    return f"{amount / _GIB:.1f} GiB {name}" if "memory" in name else f"{amount:g} {name}"
