"""What a Ray cluster says of its actors and resources, read from its global control store without joining it.

``ray.init`` would register a driver with the cluster that is examined; the accessors behind ``ray status`` and
``ray list`` only read. Releases differ in how they are made and what they are called, so each record is taken by
itself, and what a release does not tell is told as a problem."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from report import emit, run

MOST_ACTORS = 2000
# The key under which the autoscaler keeps its last report: ray/_private/ray_constants.py or
# ray/autoscaler/_private/constants.py (DEBUG_AUTOSCALING_STATUS), the same text since Ray 2.0.
STATUS = b"__autoscaling_status"
TIME_LIMIT = 10


def main(arguments: dict[str, Any]) -> None:
    import ray

    emit("version", ray.__version__)
    address = arguments["address"]
    problems: list[str] = []
    state = _connected(address)
    for name, read in (
        ("actors", lambda: _actors(state.actor_table(None))),
        ("bundles", lambda: _bundles(state.placement_group_table())),
        ("nodes", lambda: _nodes(state.node_table())),
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


def _actors(table: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "kind": actor.get("ActorClassName", ""),
            "name": actor.get("Name", ""),
            "state": actor.get("State", ""),
            "pid": actor.get("Pid") or None,
            "node": (actor.get("Address") or {}).get("IPAddress", ""),
            "death": str(actor.get("DeathCause") or "")[:2000],
        }
        for actor in list(table.values())[:MOST_ACTORS]
    ]


def _bundles(table: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "name": group.get("name", ""),
            "state": group.get("state", ""),
            "strategy": group.get("strategy", ""),
            "bundles": list((group.get("bundles") or {}).values()),
        }
        for group in table.values()
        if group.get("state") != "REMOVED"
    ]


def _nodes(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "alive": bool(node.get("Alive", node.get("alive"))),
            "address": node.get("NodeManagerAddress", ""),
            "resources": node.get("Resources") or {},
        }
        for node in table
    ]


def _demands(address: str) -> list[dict[str, Any]]:
    """What tasks and actors wait for. The first autoscaler leaves its report in the store, the second is asked."""
    from ray._raylet import GcsClient

    reported = GcsClient(address=address).internal_kv_get(STATUS, namespace=None, timeout=TIME_LIMIT)
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
