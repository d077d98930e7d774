"""Collects the bundles of all nodes of a Ray cluster, in a child of the interpreter that has Ray."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rldoctor.catalogue.probe import Job, JobResult, Request
from rldoctor.errors import InputError
from rldoctor.fleet.model import Unread
from rldoctor.probes.runner import run_job

CHILD = Path(__file__).parent.parent / "probes" / "children" / "ray_bundles.py"
# For one node to write its bundle; a cold disk that many nodes share takes its time.
SECONDS = 60.0
# To reach the cluster, beyond what the nodes need.
_REACH = 90.0


def collect(
    address: str, python: Path | None, folder: Path, seconds: float | None, environ: Mapping[str, str]
) -> tuple[Unread, ...]:
    """Writes the bundle of every node of the cluster at ``address`` (``auto``, ``host:port``, ``ray://...``) into a
    folder; the nodes of which there is none, with the reason. ``seconds`` bounds each node.

    Raises :class:`InputError` with one line where the cluster cannot be reached."""
    each = seconds or SECONDS
    arguments = {
        "address": address,
        "folder": str(folder.resolve()),
        "interpreters": [sys.executable],
        "seconds": each,
    }
    job = Job(arguments=arguments, time_limit=2 * each + _REACH)
    result = run_job(CHILD, job, "ray-bundles", Request(python=python, environ=dict(environ)))
    if "lost" not in result.records:
        raise InputError(f"Ray at {address}: {_why(result)}")
    return msgspec.convert(result.records["lost"], tuple[Unread, ...])


def _why(result: JobResult) -> str:
    if result.error is not None and "No module named 'ray'" in result.error.message:
        return "this interpreter has no Ray; name the cluster's own (--python PATH)"
    said = result.error.message if result.error is not None else ""
    first = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return first[:300] or f"the connection ended without an answer ({result.ended})"
