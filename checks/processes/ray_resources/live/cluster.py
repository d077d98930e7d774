"""A live Ray cluster, the observed side of RLD602: whether a launch finds a place on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
    counted,
    plan_of,
)
from rldoctor.api.hang import live_cluster

from .. import GROUPS, LIVE, NEEDED, check
from ..fixes import EACH, NODES
from ..placing import Group, Placement, place, together
from ..room import SHOWN, lacks, listed, nodes, said, whole

if TYPE_CHECKING:
    from rldoctor.api.hang import RayActor, RayBundles, RayCluster


@check.observed(needs=["plan", f"observations.{LIVE}"])
def place_on_it(case: Case) -> Iterator[Finding | Reach]:
    """The launch's placement groups on the nodes of the cluster that runs, empty and as they are now."""
    plan, cluster = plan_of(case), live_cluster(case)
    if plan.value("process.launcher") != "ray" or not plan.value(NEEDED):
        raise NotApplicable("no placement groups of a known size")
    if plan.value("ray.started"):
        raise NotApplicable("the launch starts a cluster of its own")
    groups = _asked(plan)
    asked = " and ".join(listed(group) for group in groups)
    ever = place(groups, cluster.nodes)
    if ever.complete is None:
        raise NotChecked(f"whether Ray finds a place for {asked} depends on which nodes it looks at first")
    cited = cite(plan, NEEDED, EACH, NODES)
    now = place(groups, cluster.free) if cluster.free else ever
    if ever.group is not None:
        yield check.finding(
            f"the run asks Ray for {asked}, and the {counted(len(cluster.nodes), 'node')} of the cluster at "
            f"{cluster.address} {'cannot' if cluster.grows else 'can never'} hold that: {lacks(ever, cluster.nodes)}; "
            + ("it stays pending, unless the autoscaler starts nodes that can" if cluster.grows else _PENDING),
            severity=Severity.WARNING if cluster.grows else Severity.ERROR,
            grade=Grade.OBSERVED,
            evidence=(*cited, *nodes(cluster, ever.group)),
            fixes=tuple(_room(cluster, groups)),
            url=_URL,
        )
    elif now.group is not None:
        yield _taken(cluster, asked, now, cited)
    else:
        where = f"the {counted(len(cluster.nodes), 'node')} of Ray at {cluster.address}"
        sure = bool(cluster.free) and now.complete
        yield Reach(f"{asked} find a place on {where}" + ("" if sure else ", were they empty"))


STORE = "object_store_memory"
# Ray spills to disk from 80% on (object_spilling_threshold, ray_config_def.h): with less free than this, at once.
_LITTLE = 1 / 3


@check.observed(needs=[f"observations.{LIVE}"])
def room_in_the_store(case: Case) -> Iterator[Finding | Reach]:
    """What is free of each node's object store before the run puts its batches there."""
    cluster = live_cluster(case)
    stores = [
        (address, node[STORE], left.get(STORE, 0.0))
        for node, left, address in zip(cluster.nodes, cluster.free, cluster.addresses, strict=False)
        if node.get(STORE)
    ]
    if not stores:
        raise NotApplicable(f"Ray at {cluster.address} does not tell what is free of its object stores")
    full = [(address, total, left) for address, total, left in stores if left < _LITTLE * total]
    if not full:
        yield Reach(f"{min(left / total for _, total, left in stores):.0%} of every object store is free at least")
        return
    yield check.finding(
        f"others hold most of the object store of {counted(len(full), 'node')} of the cluster at {cluster.address} "
        "before the run begins: from 80% on Ray spills batches to disk, and fails where that is full too",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=tuple(
            Evidence(
                text=f"node {address} has free {said({STORE: left})} of {said({STORE: total})}", source="ray status"
            )
            for address, total, left in full[:SHOWN]
        ),
        fixes=(
            Fix(
                title="see which jobs and actors hold the objects, and end those of runs that are over",
                commands=("ray memory --stats-only", "ray list actors --filter state=ALIVE"),
            ),
        ),
        url="https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html",
    )


_PENDING = "it stays pending for ever"
_URL = "https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html"
_START = Fix(
    title="ask for what the cluster's nodes have, or start the missing nodes with their devices visible",
    commands=("ray status", "ray start --address=HEAD:6379 --num-gpus=N"),
)


def _room(cluster: RayCluster, groups: list[Group]) -> Iterator[Fix]:
    """What makes room: where the devices alone would do, the cores that Ray counts."""
    devices = [
        replace(group, bundles=tuple({"GPU": bundle.get("GPU", 0.0)} for bundle in group.bundles)) for group in groups
    ]
    if place(devices, cluster.nodes).complete:
        each = max(whole(group).get("CPU", 0.0) for group in groups)
        yield Fix(
            title="start the nodes with the cores that are asked for: to Ray they are a number",
            commands=(f"ray start --address=HEAD:6379 --num-cpus={each:g}",),
        )
    yield _START


def _asked(plan: RolloutPlan) -> list[Group]:
    """The launch's placement groups; where its framework's are not known, a bundle for each device."""
    groups = [
        Group(group["strategy"], (group["each"],) * group["bundles"], group["count"])
        for group in plan.value(GROUPS) or ()
    ]
    return groups or [Group("PACK", ({"GPU": 1.0},) * round(plan.value(NEEDED)))]


def _taken(cluster: RayCluster, asked: str, now: Placement, cited: tuple[Evidence, ...]) -> Finding:
    """The cluster could hold it, were nobody else there."""
    assert now.group is not None  # it did not find a place
    wanted = whole(now.group)
    holders = [actor for actor in cluster.actors if actor.state == "ALIVE" and actor.holds.keys() & wanted.keys()]
    stale = [actor for actor in holders if actor.job not in cluster.jobs]
    reserved = [group for group in cluster.bundles if group.state == "CREATED"]
    kept = [group for group in reserved if group.job and group.job not in cluster.jobs]
    left_over = [counted(len(found), what) for found, what in ((stale, "actor"), (kept, "placement group")) if found]
    hold = "holds" if len(stale) + len(kept) == 1 else "hold"
    left = f"; {' and '.join(left_over)} of jobs that have ended {hold} a part of it"
    return check.finding(
        f"the run asks Ray for {asked}, which the cluster at {cluster.address} can hold, but not now: "
        f"{lacks(now, cluster.free, free=True)}; others hold "
        f"{said({name: cluster.total.get(name, 0.0) - cluster.available.get(name, 0.0) for name in wanted})} of "
        f"{said(cluster.total, wanted)}{left if left_over else ''}",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(
            *cited,
            *nodes(cluster, now.group),
            *(_reservation(group, group in kept) for group in [*kept, *(g for g in reserved if g not in kept)][:SHOWN]),
            *(_holder(actor, actor in stale) for actor in (*stale, *holders)[:SHOWN]),
        ),
        fixes=(
            *(Fix(title="end what ended jobs have left", commands=(command,)) for command in _endings(stale, kept)),
            Fix(
                title="see who holds them, and wait for it or end it",
                commands=("ray status -v", "ray list actors", "ray list placement-groups"),
            ),
        ),
        url="https://docs.ray.io/en/latest/ray-core/scheduling/resources.html",
    )


def _endings(stale: list[RayActor], kept: list[RayBundles]) -> Iterator[str]:
    """Commands that end the first actor and the first group of what ended jobs have left, where they have names."""
    actor = next((actor for actor in stale if actor.name), None)
    if actor is not None:
        end = f'ray.init("auto", namespace="{actor.namespace}"); ray.kill(ray.get_actor("{actor.name}"))'
        yield f"python -c 'import ray; {end}'"
    group = next((group for group in kept if group.name), None)
    if group is not None:
        space = f', namespace="{group.namespace}"' if group.namespace else ""
        end = f'ray.util.remove_placement_group(ray.util.get_placement_group("{group.name}"))'
        yield f"python -c 'import ray; ray.init(\"auto\"{space}); {end}'"


def _reservation(group: RayBundles, kept: bool) -> Evidence:
    whose = f" of job {group.job}{', which has ended' if kept else ''}," if group.job else ""
    text = (
        f"placement group {group.name or '(unnamed)'} ({group.strategy}){whose} holds {said(together(group.bundles))}"
    )
    return Evidence(text=text, source="ray list placement-groups")


def _holder(actor: RayActor, stale: bool) -> Evidence:
    whose = f"job {actor.job}{', which has ended' if stale else ''}"
    name = f"{actor.name} ({actor.kind})" if actor.name else actor.kind
    return Evidence(text=f"actor {name} of {whose}, holds {said(actor.holds)}", source="ray list actors")
