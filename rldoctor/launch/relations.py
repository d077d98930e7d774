"""What launches of one file are to each other: a rollout server and its trainer are one run, two trainers at the same
time share a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rldoctor.frameworks.launch import Launch
from rldoctor.plan.model import RolloutPlan, Setting, Source

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


def together(launches: list[Launch], plans: list[RolloutPlan]) -> list[RolloutPlan]:
    """The plans of these launches, each with what runs at the same time on the same host."""
    of = {id(launch): plan for launch, plan in zip(launches, plans, strict=True)}
    done: list[RolloutPlan] = []
    for launch, plan in zip(launches, plans, strict=True):
        if launch.where or launch.own_ports:
            elsewhere = Setting(value=True, source=Source.DERIVED, how="what the command is handed to")
            plan = replace(plan, settings={**plan.settings, "process.own_ports": elsewhere})
        beside = [other for other in launch.beside if _share_a_host(launch, other)]
        others = [(other, of[id(other)]) for other in beside if id(other) in of]
        listed = [_seen(its, other) for other, its in others if its.role == plan.role in ("trainer", "server")]
        if plan.role == "trainer":
            unclaimed = (other for other in beside if id(other) not in of)
            listed += [_ranks(other) for other in unclaimed if "process.launcher" in other.process]
        if launch.own_ports:
            listed = [{**seen, **_NO_PORTS} for seen in listed]
        place = _server_place(plan)
        listed = [{**seen, "shares_server": place is not None and seen.get("server") == place} for seen in listed]
        if plan.role == "trainer" and not _has_its_devices_alone(plan):
            listed = [{**seen, "share": None} for seen in listed]
        ports = [] if launch.own_ports else [port for other, its in others for port in _ports(its, other)]
        for name, value in (("process.beside", listed), ("process.ports_beside", ports)):
            if value:
                before = Setting(value=value, source=Source.DERIVED, how="started in the background before it")
                plan = replace(plan, settings={**plan.settings, name: before})
        done.append(plan)
    return done


def _share_a_host(one: Launch, other: Launch) -> bool:
    """Whether both are known to run on one machine."""
    if None in one.where or None in other.where or one.where != other.where:
        return False
    return not (_of_some_nodes(one) or _of_some_nodes(other))


def _of_some_nodes(launch: Launch) -> bool:
    """Whether the scheduler chooses which nodes of its job a step runs on."""
    asked = launch.process.get("scheduler.step_nodes")
    job = launch.process.get("scheduler.nodes")
    if asked is None or launch.where:
        return False
    return job is None or job.value is None or job.value != asked.value


# How the ranks of a launch meet.
_MEETING = ("launcher", "master_port", "standalone", "rdzv_backend", "nnodes")


# Of a launch in a container of its own.
_NO_PORTS = {**dict.fromkeys(_MEETING), "port": None}


def _meeting(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """How the ranks of a launch meet; nothing of it where a part cannot be read, which is no default."""
    held = [settings.get(f"process.{name}") for name in _MEETING]
    if any(setting is not None and setting.unknown is not None for setting in held):
        return dict.fromkeys(_MEETING)
    return {name: None if one is None else one.value for name, one in zip(_MEETING, held, strict=True)}


def _ranks(launch: Launch) -> dict[str, Any]:
    """What another launch needs to know of a program that no framework claims."""
    unknown = dict.fromkeys(("devices", "server", "share"))
    ports = _NO_PORTS if launch.own_ports else _meeting(launch.process)
    return {"file": launch.file, "line": launch.line, **ports, **unknown}


def _seen(plan: RolloutPlan, launch: Launch) -> dict[str, Any]:
    """What another launch needs to know of it."""
    found = _meeting(plan.settings)
    found["devices"] = plan.value("placement.trainer_devices")
    if plan.role == "server":
        found["devices"], found["port"] = plan.value("placement.engine_devices"), plan.value("placement.listen_port")
    else:
        found["server"] = _server_place(plan)
    if plan.role == "server" or _has_its_devices_alone(plan):
        found["share"] = plan.value("engine.gpu_memory_utilization")
    if launch.own_ports:
        found.update(_NO_PORTS)
    return {"file": plan.file, "line": plan.line, **found}


def _ports(plan: RolloutPlan, launch: Launch) -> list[dict[str, Any]]:
    """The ports of this host that it takes besides the one at which its ranks meet, and what for."""
    if launch.own_ports:
        return []
    taken = {"listens": plan.value("placement.listen_port") if plan.role == "server" else None}
    if (place := _server_place(plan)) is not None and place.startswith("localhost:"):
        taken["group"] = plan.value("sync.port")
    seen = {"file": plan.file, "line": plan.line, "role": plan.role, "framework": plan.framework}
    return [{**seen, "does": does, "port": port} for does, port in taken.items() if isinstance(port, int)]


def _server_place(plan: RolloutPlan) -> str | None:
    """Where the one rollout server of a trainer is, as far as the launch tells. Of a trainer on several nodes each has
    a launch of its own."""
    if plan.value("placement.mode") != "server" or _on_several_nodes(plan):
        return None
    url, port = plan.value("placement.server_url"), plan.value("placement.server_port")
    host = plan.value("placement.server_host")
    if any(isinstance(part, list) for part in (url, host, port)) or not (url or port):
        return None
    return str(url) if url else f"{'localhost' if host in (None, *_HERE) else host}:{port}"


def _on_several_nodes(plan: RolloutPlan) -> bool:
    nodes = plan.get("process.nnodes")
    return nodes is not None and nodes.value != 1


def _has_its_devices_alone(plan: RolloutPlan) -> bool:
    """Whether a trainer with its engine takes all devices that its own command names: a Ray that is up already hands
    out those that are free."""
    devices = plan.value("placement.trainer_devices")
    named = plan.settings.get("env.CUDA_VISIBLE_DEVICES")
    rays = plan.value("ray.started") or plan.value("ray.address") or plan.value("env.RAY_ADDRESS")
    return bool(
        devices
        and named is not None
        and named.line
        and not rays
        and plan.value("placement.mode") == "colocate"
        and plan.value("placement.gpus_per_node", plan.value("process.nproc")) == len(devices)
    )


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
        refused=(*plan.refused, *server.refused),
        notes=tuple(dict.fromkeys((*plan.notes, *server.notes))),
    )
