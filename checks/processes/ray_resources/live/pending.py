"""A run that stands still, the other observed side of RLD602: actors and placement groups that Ray keeps pending."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, Severity, counted
from rldoctor.api.hang import stalled_run

from .. import check
from ..placing import Group, Placement, holds, place
from ..room import SHOWN, WAYS, lacks, largest, nodes, said

if TYPE_CHECKING:
    from rldoctor.api.hang import RayActor, RayBundles, RayCluster, RayDemand


@check.observed(needs=["observations.hang"])
def pending(case: Case) -> Iterator[Finding | Reach]:
    """What waits for resources, against what the whole cluster has and what is free of it."""
    run = stalled_run(case)
    if not run.record.ray:
        lacking = next((text for text in run.record.lacking if text.startswith("Ray")), None)
        raise NotApplicable(lacking or "the run uses no Ray")
    for waiting in run.pending:
        cluster = waiting.cluster
        evidence = (*_actors(waiting.actors), *_groups(waiting.groups), *_demands(waiting.never))
        beyond = next((one for one in waiting.demands if not any(holds(node, one) for node in cluster.nodes)), None)
        held = next(iter(waiting.demands), None)
        unplaced = next(_unplaced(cluster, waiting.groups), None)
        if beyond is not None:
            yield _never(cluster, beyond, evidence)
        elif unplaced is not None:
            yield _never_together(cluster, *unplaced, evidence)
        elif held is not None and (waiting.actors or waiting.groups):
            yield check.finding(
                f"{len(evidence)} actors or placement groups wait for {said(held)}, which the cluster has and others "
                f"hold: {said(cluster.available, held)} free of {said(cluster.total, held)}",
                severity=Severity.WARNING,
                grade=Grade.OBSERVED,
                evidence=(*evidence, *nodes(cluster, Group("PACK", (held,)))),
                fixes=(Fix(title="see who holds them", commands=("ray status -v", "ray list actors")),),
            )
    yield Reach(f"{sum(len(cluster.actors) for cluster in run.record.ray)} actors of Ray looked at")


def _unplaced(
    cluster: RayCluster, groups: tuple[RayBundles, ...]
) -> Iterator[tuple[RayBundles, Placement, list[RayBundles]]]:
    """Groups that the empty cluster could not hold, by themselves or with what the same job holds already."""
    for group in groups:
        own = [one for one in cluster.bundles if one.state == "CREATED" and one.job and one.job == group.job]
        for before in ([], own):
            came = place([Group(one.strategy, one.bundles) for one in (*before, group)], cluster.nodes)
            if came.complete is False:
                yield group, came, before
                break


def _never(cluster: RayCluster, asked: dict[str, float], evidence: tuple[Evidence, ...]) -> Finding:
    dead = f"; {cluster.dead_nodes} nodes have died" if cluster.dead_nodes else ""
    return check.finding(
        f"Ray is asked for {said(asked)} on one node, and no node has that: {len(cluster.nodes)} with at most "
        f"{said(largest(cluster.nodes, asked))}{dead}; it stays pending for ever",
        grade=Grade.OBSERVED,
        evidence=(
            *evidence,
            Evidence(text=f"the cluster has {said(cluster.total)}", source=f"Ray at {cluster.address}"),
        ),
        fixes=(
            Fix(
                title="ask for what a node has, or start the missing nodes with their devices visible",
                commands=("ray status", "ray start --num-gpus=N ..."),
            ),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
    )


def _never_together(
    cluster: RayCluster, group: RayBundles, came: Placement, before: list[RayBundles], evidence: tuple[Evidence, ...]
) -> Finding:
    """Each bundle fits a node, all of them do not."""
    each = next(iter(group.bundles), {})
    number = counted(len(group.bundles), "bundle")
    asked = f"{number} of {said(each)}" if all(b == each for b in group.bundles) else number
    beside = f" beside the {counted(len(before), 'group')} that its job has" if before else ""
    return check.finding(
        f"placement group {group.name or '(unnamed)'} asks for {asked}{WAYS.get(group.strategy, '')} "
        f"({group.strategy}){beside}, and the {counted(len(cluster.nodes), 'node')} of the cluster can never hold "
        f"that: {lacks(came, cluster.nodes)}; it stays pending for ever",
        grade=Grade.OBSERVED,
        evidence=(*evidence, *nodes(cluster, Group(group.strategy, group.bundles))),
        fixes=(
            Fix(
                title="start the missing nodes, or ask for fewer or smaller bundles",
                commands=("ray status", "ray list placement-groups --detail"),
            ),
            Fix(title="PACK or SPREAD in place of a strict strategy, where the framework lets bundles share nodes"),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html",
    )


def _actors(waiting: tuple[RayActor, ...]) -> list[Evidence]:
    return [
        Evidence(text=f"actor {actor.name or actor.kind} ({actor.kind}) is {actor.state}", source="ray list actors")
        for actor in waiting[:SHOWN]
    ]


def _demands(never: tuple[RayDemand, ...]) -> list[Evidence]:
    return [
        Evidence(text=f"{counted(one.count, 'task')} or actors wait for {said(one.resources)}", source="ray status")
        for one in never[:SHOWN]
    ]


def _groups(groups: tuple[RayBundles, ...]) -> list[Evidence]:
    return [
        Evidence(
            text=f"placement group {group.name or '(unnamed)'} ({group.strategy}) is {group.state}: "
            + "; ".join(said(bundle) for bundle in group.bundles[:SHOWN]),
            source="ray list placement-groups",
        )
        for group in groups[:SHOWN]
    ]
