"""What a Ray cluster says of its actors and resources, read from its global control store without joining it.

``ray.init`` would register a driver with the cluster that is examined; the accessors behind ``ray status`` and
``ray list`` only read. Releases differ in how they are made and what they are called, so each record is taken by
itself, and what a release does not tell is told as a problem."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ray_door
from report import emit, run

MOST_ACTORS = 2000
# The key under which the autoscaler keeps its last report: ray/_private/ray_constants.py or
# ray/autoscaler/_private/constants.py (DEBUG_AUTOSCALING_STATUS), the same text since Ray 2.0.
STATUS = b"__autoscaling_status"


def main(arguments: dict[str, Any]) -> None:
    import ray

    emit("version", ray.__version__)
    address = ray_door.found(arguments["address"])
    emit("address", address)
    ray_door.reach(address)
    emit("started", ray_door.started(address))
    problems: list[str] = []
    state = _connected(address)
    for name, read in (
        ("actors", lambda: _actors(state)),
        ("jobs", lambda: [job["JobID"] for job in state.job_table() if not job.get("IsDead")]),
        ("bundles", lambda: _bundles(state)),
        ("nodes", lambda: _nodes(state)),
        ("grows", lambda: state.get_max_resources_from_cluster_config() is not None),
        ("total", state.cluster_resources),
        ("available", state.available_resources),
        ("demands", lambda: _demands(address)),
    ):
        _record(name, read, problems)
    emit("problems", problems)


def _record(name: str, read: Callable[[], Any], problems: list[str]) -> None:
    try:
        emit(name, read())
    except Exception as error:  # this release keeps it elsewhere
        problems.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def _connected(address: str) -> Any:
    from ray._private.state import GlobalState
    from ray._raylet import GcsClientOptions

    # 2.10 and later take the cluster's id, which an observer does not know; earlier ones took the address alone.
    if hasattr(GcsClientOptions, "create"):
        options = GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    elif hasattr(GcsClientOptions, "from_gcs_address"):
        options = GcsClientOptions.from_gcs_address(address)
    else:
        options = GcsClientOptions(address)
    state = GlobalState()
    state._initialize_global_state(options)
    return state


def _actors(state: Any) -> list[dict[str, Any]]:
    held = _held(state)
    return [
        {
            "kind": actor.get("ActorClassName", ""),
            "name": actor.get("Name", ""),
            "state": actor.get("State", ""),
            "pid": actor.get("Pid") or None,
            "node": (actor.get("Address") or {}).get("IPAddress", ""),
            "death": str(actor.get("DeathCause") or "")[:2000],
            "job": actor.get("JobID", ""),
            **held.get(identifier, {}),
        }
        for identifier, actor in list(state.actor_table(None).items())[:MOST_ACTORS]
    ]


def _held(state: Any) -> dict[str, dict[str, Any]]:
    """What each actor holds, and the namespace of its name: the table for people leaves them out."""
    try:
        from ray.core.generated.gcs_pb2 import ActorTableData

        rows = state._connect_and_get_accessor().get_actor_table(None, None)
        actors = [ActorTableData.FromString(row) for row in rows]
        return {
            actor.actor_id.hex(): {"holds": dict(actor.required_resources), "namespace": actor.ray_namespace}
            for actor in actors
        }
    except Exception:  # an earlier release keeps them elsewhere
        return {}


def _bundles(state: Any) -> list[dict[str, Any]]:
    makers = _makers(state)
    return [
        {
            "name": group.get("name", ""),
            "state": group.get("state", ""),
            "strategy": group.get("strategy", ""),
            "bundles": list((group.get("bundles") or {}).values()),
            **makers.get(identifier, {}),
        }
        for identifier, group in state.placement_group_table().items()
        if group.get("state") != "REMOVED"
    ]


def _makers(state: Any) -> dict[str, dict[str, str]]:
    """Which job made each placement group, and where its name is known: the table for people leaves it out."""
    try:
        from ray.core.generated.gcs_pb2 import PlacementGroupTableData

        rows = state._connect_and_get_accessor().get_placement_group_table()
        groups = [PlacementGroupTableData.FromString(row) for row in rows]
        return {
            group.placement_group_id.hex(): {"job": group.creator_job_id.hex(), "namespace": group.ray_namespace}
            for group in groups
        }
    except Exception:  # an earlier release keeps them elsewhere
        return {}


def _nodes(state: Any) -> list[dict[str, Any]]:
    free = state.available_resources_per_node() if hasattr(state, "available_resources_per_node") else {}
    draining = state.get_draining_nodes() if hasattr(state, "get_draining_nodes") else {}
    return [
        {
            "alive": bool(node.get("Alive", node.get("alive"))),
            "address": node.get("NodeManagerAddress", ""),
            "resources": node.get("Resources") or {},
            "free": free.get(node.get("NodeID")),
            "draining": node.get("NodeID") in draining,
        }
        for node in state.node_table()
    ]


def _demands(address: str) -> list[dict[str, Any]]:
    """What tasks and actors wait for. The first autoscaler leaves its report in the store, the second is asked."""
    from ray._raylet import GcsClient

    reported = GcsClient(address=address).internal_kv_get(STATUS, namespace=None, timeout=ray_door.TIME_LIMIT)
    if reported:
        report = json.loads(reported).get("load_metrics_report") or {}
        return [{"resources": resources, "count": count} for resources, count in report.get("resource_demand") or []]
    from ray.autoscaler.v2.sdk import get_cluster_status

    demands = get_cluster_status(address).resource_demands.ray_task_actor_demand
    return [
        {"resources": dict(one.bundle), "count": one.count} for demand in demands for one in demand.bundles_by_count
    ]


if __name__ == "__main__":
    run(main)
