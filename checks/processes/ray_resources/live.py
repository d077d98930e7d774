"""A live Ray cluster, the observed side of RLD602: whether a launch finds a place on it, and the actors and placement
groups that it keeps pending."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rldoctor.api import (
    Case,
    Evidence,
    Finding,
    Fix,
    Grade,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.hang import live_cluster, stalled_run

from . import EACH, LIVE, NEEDED, NODES, check
from .placing import fits

if TYPE_CHECKING:
    from rldoctor.api.hang import RayActor, RayBundles, RayCluster

_SHOWN = 6
_GIB = 1024**3


@check.observed(needs=["plan", f"observations.{LIVE}"])
def place_on_it(case: Case) -> Iterator[Finding | Reach]:
    """The launch's placement groups on the nodes of the cluster that runs, empty and as they are now."""
    plan, cluster = plan_of(case), live_cluster(case)
    if plan.value("process.launcher") != "ray" or not plan.value(NEEDED):
        raise NotApplicable("no placement groups of a known size")
    if plan.value("ray.started"):
        raise NotApplicable("the launch starts a cluster of its own")
    groups = _asked(plan)
    asked = _listed(groups)
    ever = fits(groups, "PACK", cluster.nodes)
    if ever is None:
        raise NotChecked(f"whether {asked} find a place would take long to know")
    evidence = (*cite(plan, NEEDED, EACH, NODES, "ray.cpus_needed"), *_nodes(cluster, groups[0]))
    if not ever:
        yield check.finding(
            f"the run asks Ray for {asked}, and the {_count(len(cluster.nodes), 'node')} of the cluster at "
            f"{cluster.address} {'cannot' if cluster.grows else 'can never'} hold that (a node has at most "
            f"{_said(_largest(cluster, groups[0]))}): it stays pending"
            + (", unless the autoscaler starts nodes that can" if cluster.grows else ""),
            severity=Severity.WARNING if cluster.grows else Severity.ERROR,
            grade=Grade.OBSERVED,
            evidence=evidence,
            fixes=tuple(_room(cluster, groups)),
            url="https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html",
        )
    elif cluster.free and fits(groups, "PACK", cluster.free) is False:
        yield _taken(cluster, asked, groups[0], evidence)
    else:
        where = f"the {_count(len(cluster.nodes), 'node')} of Ray at {cluster.address}"
        yield Reach(f"{asked} find a place on {where}" + ("" if cluster.free else ", were they empty"))


_START = Fix(
    title="ask for what the cluster's nodes have, or start the missing nodes with their devices visible",
    commands=("ray status", "ray start --address=HEAD:6379 --num-gpus=N"),
)


def _room(cluster: RayCluster, groups: list[dict[str, float]]) -> Iterator[Fix]:
    """What makes room: where the devices alone would do, the cores that Ray counts."""
    if fits([{"GPU": group["GPU"]} for group in groups], "PACK", cluster.nodes):
        cores = f"ray start --address=HEAD:6379 --num-cpus={groups[0].get('CPU', 0):g}"
        yield Fix(
            title="start the nodes with the cores that are asked for: to Ray they are a number", commands=(cores,)
        )
    yield _START


def _asked(plan: RolloutPlan) -> list[dict[str, float]]:
    """What must lie on one node each: a whole group where all its bundles must, else a single bundle."""
    needed, cores = plan.value(NEEDED), plan.value("ray.cpus_needed")
    each = plan.value(EACH) if plan.value("ray.strategy") == "STRICT_PACK" else None
    size = each if each and needed % each == 0 else 1
    bundle = {"GPU": float(size), **({"CPU": cores / needed * size} if cores else {})}
    return [bundle] * round(needed / size)


def _listed(groups: list[dict[str, float]]) -> str:
    """``2 placement groups of 24 CPU, 8 GPU, each on one node``."""
    if groups[0]["GPU"] == 1:
        return f"{_count(len(groups), 'bundle')} of {_said(groups[0])}"
    return f"{_count(len(groups), 'placement group')} of {_said(groups[0])}, each on one node"


def _taken(cluster: RayCluster, asked: str, group: dict[str, float], evidence: tuple[Evidence, ...]) -> Finding:
    """The cluster could hold it, were nobody else there."""
    holders = [actor for actor in cluster.actors if actor.state == "ALIVE" and actor.holds.keys() & group.keys()]
    stale = [actor for actor in holders if actor.job not in cluster.jobs]
    left = (
        f"; {_count(len(stale), 'actor')} of jobs that have ended {'holds' if len(stale) == 1 else 'hold'} a part of it"
    )
    named = next((actor for actor in stale if actor.name), None)
    kill = named and (
        f'import ray; ray.init("auto", namespace="{named.namespace}"); ray.kill(ray.get_actor("{named.name}"))'
    )
    return check.finding(
        f"the run asks Ray for {asked}, and others hold the nodes of the cluster at {cluster.address}: "
        f"{_said(cluster.available, group)} free of {_said(cluster.total, group)}{left if stale else ''}",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(*evidence, *(_holder(actor, actor in stale) for actor in (*stale, *holders)[:_SHOWN])),
        fixes=(
            *((Fix(title="end what ended jobs have left", commands=(f"python -c '{kill}'",)),) if kill else ()),
            Fix(title="see who holds them, and wait for it or end it", commands=("ray status -v", "ray list actors")),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
    )


def _holder(actor: RayActor, stale: bool) -> Evidence:
    whose = f"job {actor.job}{', which has ended' if stale else ''}"
    name = f"{actor.name} ({actor.kind})" if actor.name else actor.kind
    return Evidence(text=f"actor {name} of {whose}, holds {_said(actor.holds)}", source="ray list actors")


def _nodes(cluster: RayCluster, group: dict[str, float]) -> Iterator[Evidence]:
    free = cluster.free or cluster.nodes
    for node, left in list(zip(cluster.nodes, free, strict=True))[:_SHOWN]:
        text = f"a node has {_said(node, group)}, free {_said(left, group)}"
        yield Evidence(text=text, source=f"Ray at {cluster.address}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
