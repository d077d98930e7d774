"""Asks the Ray cluster of a run for its actors and resources, in a child of the interpreter that Ray itself uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor import redact
from rldoctor.catalogue.probe import Job, Request
from rldoctor.facts import proc
from rldoctor.hang.model import RayActor, RayBundles, RayCluster, RayDemand
from rldoctor.hang.runs import Run
from rldoctor.printable import plain
from rldoctor.probes.ray_cluster import admission
from rldoctor.probes.runner import run_job
from rldoctor.records import dataclass

CHILD = Path(__file__).parent.parent / "probes" / "children" / "ray_state.py"
TIME_LIMIT = 30.0
_ADDRESS = re.compile(r"--gcs-address=(\S+:\d+)$")
_WORKER = re.compile(r"--python_worker_command=(\S+)")
# These come and go with what they are called after.
_OF_A_PLACE = re.compile(r"^node:|_group_|^implicit_resource_")


class NoAnswerError(Exception):
    """Ray is there and did not tell; the message says why."""


@dataclass(frozen=True)
class _Ray:
    """A node's raylet: whom it answers to, the interpreter of its workers, and its variables."""

    address: str
    python: Path
    environ: dict[str, str]


def ask(run: Run, environ: dict[str, str]) -> RayCluster | None:
    """The cluster that the run uses, or None where it uses none. Raises :class:`NoAnswerError`."""
    raylet = next(_raylets(run), None)
    if raylet is None:
        return None
    job = Job(arguments={"address": raylet.address}, environ=admission(raylet.environ), time_limit=TIME_LIMIT)
    answer = run_job(CHILD, job, "ray-state", Request(python=raylet.python, environ=environ))
    return cluster(raylet.address, answer.records, answer.ended, answer.error.message if answer.error else "")


def asked(observed: Mapping[str, Any]) -> RayCluster:
    """The cluster that the probe ``ray_cluster`` asked. Raises :class:`NoAnswerError`."""
    error = observed.get("error") or {}
    records = observed["records"]
    return cluster(str(records.get("address", "")), records, str(observed["ended"]), str(error.get("message", "")))


def _raylets(run: Run) -> Iterator[_Ray]:
    for member in run.members:
        address = next((match[1] for part in member.command if (match := _ADDRESS.match(part))), None)
        python = next((match[1] for part in member.command if (match := _WORKER.match(part))), None)
        if address and python:
            yield _Ray(address, Path(python), proc.environment(member.process.pid))


def cluster(address: str, records: Mapping[str, Any], ended: str, error: str) -> RayCluster:
    """What the child's records say. Raises :class:`NoAnswerError`."""
    reported: dict[str, Any] = {"actors": (), "bundles": (), "nodes": (), "demands": (), **records}
    if "nodes" not in records or "actors" not in records:
        said = error or "; ".join(map(str, records.get("problems") or ()))
        why = next((line for line in said.splitlines() if line.strip()), "")[:300]
        raise NoAnswerError(why if address in why else f"Ray at {address} did not tell its actors ({why or ended})")
    alive = [node for node in reported["nodes"] if node["alive"]]
    nodes = [node for node in alive if not node.get("draining")]
    free = [node["free"] for node in nodes if node.get("free") is not None]
    started = reported.get("started") or {}
    try:
        return RayCluster(
            address=address,
            version=str(reported.get("version", "")),
            actors=tuple(_actor(actor) for actor in reported["actors"]),
            bundles=msgspec.convert(reported["bundles"], tuple[RayBundles, ...]),
            demands=tuple(_demands(msgspec.convert(reported["demands"], tuple[RayDemand, ...]))),
            total=_resources(reported.get("total")),
            available=_resources(reported.get("available")),
            nodes=tuple(_resources(node["resources"]) for node in nodes),
            dead_nodes=len(reported["nodes"]) - len(alive),
            # A node that has just joined has not reported yet.
            free=tuple(map(_resources, free)) if len(free) == len(nodes) else (),
            addresses=tuple(plain(str(node.get("address", ""))) for node in nodes),
            ray=str(started.get("ray", "")),
            python=str(started.get("python", "")),
            jobs=tuple(map(str, reported.get("jobs", ()))),
            grows=bool(reported.get("grows")),
        )
    except (msgspec.ValidationError, KeyError, TypeError) as other:
        raise NoAnswerError(f"Ray {reported.get('version', '')} reported its state in another form: {other}") from None


def _actor(reported: dict[str, Any]) -> RayActor:
    actor = msgspec.convert(reported, RayActor)
    return replace(actor, kind=plain(actor.kind), name=plain(actor.name), death=redact.text(plain(actor.death)))


def _demands(reported: Iterable[RayDemand]) -> Iterator[RayDemand]:
    for demand in reported:
        if resources := _resources(demand.resources):
            yield replace(demand, resources=resources)


def _resources(reported: object) -> dict[str, float]:
    """Resources that are asked for by a number; what names a node, a placement group or a label is not."""
    found = reported if isinstance(reported, dict) else {}
    return {name: float(n) for name, n in found.items() if not _OF_A_PLACE.search(name) and isinstance(n, int | float)}
