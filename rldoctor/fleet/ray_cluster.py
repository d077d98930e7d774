"""Collects the bundles of all nodes of a Ray cluster, in a child of the interpreter that has Ray."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.catalogue.probe import Job, JobResult, Request
from rldoctor.errors import InputError
from rldoctor.fleet.model import Judged, Unread
from rldoctor.model import Level
from rldoctor.probes.ray_cluster import admission
from rldoctor.probes.runner import run_job

CHILD = Path(__file__).parent.parent / "probes" / "children" / "ray_bundles.py"
# For one node to write its bundle; a cold disk that many nodes share takes its time.
SECONDS = 60.0
# For the checks of a level: an engine's boot with room for a busy machine.
LEVEL_SECONDS = 600.0
# To reach the cluster, beyond what the nodes need.
_REACH = 90.0


def collect(
    address: str,
    python: Path | None,
    folder: Path,
    seconds: float | None,
    environ: Mapping[str, str],
    level: Level | None = None,
) -> tuple[tuple[Unread, ...], tuple[Judged, ...]]:
    """Writes the bundle of every node of the cluster at ``address`` (``auto``, ``host:port``, ``ray://...``) into a
    folder, and runs the checks of a level on each where one is given; the nodes that did not answer, with the reason,
    and what the checks found. ``seconds`` bounds each node.

    Raises :class:`InputError` with one line where the cluster cannot be reached."""
    each = seconds or SECONDS
    checks = seconds or LEVEL_SECONDS
    arguments: dict[str, Any] = {
        "address": address,
        "folder": str(folder.resolve()),
        "interpreters": [sys.executable],
        "seconds": each,
        "level": level.label if level is not None else None,
        "checks": checks,
    }
    speaks = admission(environ)
    job = Job(
        arguments=arguments, environ=speaks, time_limit=2 * (each + (checks if level is not None else 0.0)) + _REACH
    )
    result = run_job(CHILD, job, "ray-bundles", Request(python=python, environ=dict(environ)))
    if "lost" not in result.records:
        why = _why(result)
        raise InputError(why if address in why else f"Ray at {address}: {why}")
    lost = msgspec.convert(result.records["lost"], tuple[Unread, ...])
    reports = result.records.get("reports", {})
    unjudged = [
        Unread(source=node, reason=f"level {arguments['level']}: {why}")
        for node, report in reports.items()
        if (why := _unjudged(report))
    ]
    return (*lost, *unjudged), _judged(reports)


def _unjudged(report: Mapping[str, Any]) -> str:
    """Why a node came to no answer; empty where it did."""
    if "reason" in report:
        return str(report["reason"])
    verdict = report.get("verdict") or {}
    missing = [str(one["what"]) for one in verdict.get("missing", ())] if verdict.get("state") == "not-judged" else []
    return "; ".join(missing[:2])


def _judged(reports: Mapping[str, Any]) -> tuple[Judged, ...]:
    """What the checks found, with the nodes: the same on several is one."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for node, report in sorted(reports.items()):
        for one in report.get("findings", ()):
            nodes.setdefault((one["code"], one["severity"], one["message"]), []).append(node)
    return tuple(Judged(code=c, severity=s, message=m, nodes=tuple(on)) for (c, s, m), on in nodes.items())


def _why(result: JobResult) -> str:
    if result.error is not None and "No module named 'ray'" in result.error.message:
        return "this interpreter has no Ray; name the cluster's own (--python PATH)"
    said = result.error.message if result.error is not None else ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # A heading says nothing; what it announces ends with the cause.
    first = " ".join((lines[0], lines[-1]) if lines[1:] and lines[0].endswith(":") else lines[:1])
    return first[:300] or f"the connection ended without an answer ({result.ended})"
