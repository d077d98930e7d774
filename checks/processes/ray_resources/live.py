"""Actors and placement groups that a live Ray cluster keeps pending: the observed side of RLD602."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, Severity
from rldoctor.api.hang import stalled_run

from . import check
from .placing import fits

if TYPE_CHECKING:
    from rldoctor.api.hang import RayActor, RayBundles, RayCluster

_SHOWN = 6
_GIB = 1024**3


@check.observed(needs=["observations.hang"])
def pending(case: Case) -> Iterator[Finding | Reach]:
    """What waits for resources, against what the whole cluster has and what is free of it."""
    run = stalled_run(case)
    if not run.record.ray:
        lacking = next((text for text in run.record.lacking if text.startswith("Ray")), None)
        raise NotApplicable(lacking or "the run uses no Ray")
    for waiting in run.pending:
        cluster, evidence = waiting.cluster, (*_actors(waiting.actors), *_groups(waiting.groups))
        beyond = next((asked for asked in waiting.demands if not _fits(asked, cluster)), None)
        held = next(iter(waiting.demands), None)
        unplaced = next((g for g in waiting.groups if fits(g.bundles, g.strategy, cluster.nodes) is False), None)
        if beyond is not None:
            yield _never(cluster, beyond, evidence)
        elif unplaced is not None:
            yield _never_together(cluster, unplaced, evidence)
        elif held is not None:
            yield check.finding(
                f"{len(evidence)} actors or placement groups wait for {_said(held)}, which the cluster has and others "
                f"hold: {_said(cluster.available, held)} free of {_said(cluster.total, held)}",
                severity=Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=evidence,
                fixes=(Fix(title="see who holds them", commands=("ray status -v", "ray list actors")),),
            )
    yield Reach(f"{sum(len(cluster.actors) for cluster in run.record.ray)} actors of Ray looked at")


def _never(cluster: RayCluster, asked: dict[str, float], evidence: tuple[Evidence, ...]) -> Finding:
    dead = f"; {cluster.dead_nodes} nodes have died" if cluster.dead_nodes else ""
    return check.finding(
        f"Ray is asked for {_said(asked)} on one node, and no node has that: {len(cluster.nodes)} with at most "
        f"{_said(_largest(cluster, asked))}{dead}; it stays pending for ever",
        grade=Grade.OBSERVED,
        evidence=(
            *evidence,
            Evidence(text=f"the cluster has {_said(cluster.total)}", source=f"Ray at {cluster.address}"),
        ),
        fixes=(
            Fix(
                title="ask for what a node has, or start the missing nodes with their devices visible",
                commands=("ray status", "ray start --num-gpus=N ..."),
            ),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
    )


def _never_together(cluster: RayCluster, group: RayBundles, evidence: tuple[Evidence, ...]) -> Finding:
    """Each bundle fits a node, all of them do not."""
    count = len(group.bundles)
    how = {"STRICT_SPREAD": "each on a node of its own", "STRICT_PACK": "all on one node"}.get(
        group.strategy, "together"
    )
    each = next(iter(group.bundles), {})
    asked = f"{count} bundles of {_said(each)}" if all(b == each for b in group.bundles) else f"{count} bundles"
    nodes = len(cluster.nodes)
    return check.finding(
        f"placement group {group.name or '(unnamed)'} asks for {asked}, {how} ({group.strategy}), and the "
        f"{nodes} node{'s' if nodes != 1 else ''} of the cluster can never hold that: it stays pending for ever",
        grade=Grade.OBSERVED,
        evidence=(
            *evidence,
            *(
                Evidence(text=f"a node has {_said(node)}", source=f"Ray at {cluster.address}")
                for node in cluster.nodes[:_SHOWN]
            ),
        ),
        fixes=(
            Fix(
                title="start the missing nodes, or ask for fewer or smaller bundles",
                commands=("ray status", "ray list placement-groups --detail"),
            ),
            Fix(title="PACK or SPREAD in place of a strict strategy, where the framework lets bundles share nodes"),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html",
    )


def _fits(asked: dict[str, float], cluster: RayCluster) -> bool:
    """Whether an empty node of the cluster would hold it."""
    return any(all(node.get(name, 0.0) >= amount for name, amount in asked.items()) for node in cluster.nodes)


def _largest(cluster: RayCluster, asked: dict[str, float]) -> dict[str, float]:
    return {name: max((node.get(name, 0.0) for node in cluster.nodes), default=0.0) for name in asked}


def _said(resources: dict[str, float], only: dict[str, float] | None = None) -> str:
    """``8 GPU, 1 CPU``; memory in GiB."""
    names = [name for name in sorted(only or resources) if not name.startswith(("node:", "bundle_group"))]
    return ", ".join(_amount(name, resources.get(name, 0.0)) for name in names) or "nothing"


def _amount(name: str, amount: float) -> str:
    return f"{amount / _GIB:.1f} GiB {name}" if "memory" in name else f"{amount:g} {name}"


def _actors(waiting: tuple[RayActor, ...]) -> list[Evidence]:
    return [
        Evidence(text=f"actor {actor.name or actor.kind} ({actor.kind}) is {actor.state}", source="ray list actors")
        for actor in waiting[:_SHOWN]
    ]


def _groups(groups: tuple[RayBundles, ...]) -> list[Evidence]:
    return [
        Evidence(
            text=f"placement group {group.name or '(unnamed)'} ({group.strategy}) is {group.state}: "
            + "; ".join(_said(bundle) for bundle in group.bundles[:_SHOWN]),
            source="ray list placement-groups",
        )
        for group in groups[:_SHOWN]
    ]
