"""Joins a rollout server's launch with the trainer that the same file starts: together they are one run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rldoctor.plan.model import RolloutPlan

_FROM_SERVER = (
    "engine.",
    "placement.listen_",
    "placement.engine",
    "rollout.backend",
    "rollout.async_engine",
    "rollout.multi_turn",
    "seed.engine",
    "seed.per_replica",
)
_HERE = ("0.0.0.0", "127.0.0.1", "localhost")


def joined(plans: Iterable[RolloutPlan]) -> list[RolloutPlan]:
    """The plans with each server merged into the trainers that use it; a server that nobody here uses stays a plan."""
    listed = list(plans)
    servers = [plan for plan in listed if plan.role == "server"]
    done: list[RolloutPlan] = []
    used: set[int] = set()
    for plan in listed:
        server = _server_of(plan, servers)
        if server is not None:
            used.add(id(server))
            plan = _merged(plan, server)
        done.append(plan)
    return [plan for plan in done if id(plan) not in used]


def _server_of(plan: RolloutPlan, servers: list[RolloutPlan]) -> RolloutPlan | None:
    if plan.role == "server" or plan.value("placement.mode") != "server":
        return None
    port = plan.value("placement.server_port")
    fitting = [s for s in servers if port is None or s.value("placement.listen_port") in (None, port)]
    if fitting:
        return fitting[0]
    # One server in the background and a trainer that asks this host: they are meant for each other, and that the ports
    # differ is for a check to say.
    here = plan.value("placement.server_url") is None and plan.value("placement.server_host") in (None, *_HERE)
    alone = len(servers) == 1 and servers[0].value("process.background") is True
    return servers[0] if here and alone else None


def _merged(plan: RolloutPlan, server: RolloutPlan) -> RolloutPlan:
    kept = {name: setting for name, setting in plan.settings.items() if not name.startswith("engine.")}
    theirs = {name: setting for name, setting in server.settings.items() if name.startswith(_FROM_SERVER)}
    unset = tuple(
        sorted({*plan.unset, *(n for n in server.unset if n.startswith("engine."))} - kept.keys() - theirs.keys())
    )
    return replace(
        plan,
        settings={**kept, **theirs},
        unset=unset,
        server=server,
        unknown=(*plan.unknown, *server.unknown),
        notes=tuple(dict.fromkeys((*plan.notes, *server.notes))),
    )
