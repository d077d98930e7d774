"""The ``ray_cluster`` probe: what the Ray cluster that the launch is to run on has, what of it is free, and who runs
there. It is only read: no driver is registered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.facts.environment import of
from rldoctor.model import Level
from rldoctor.probes.feasible import require_import

ADDRESS = "RAY_ADDRESS"
SECONDS = 30.0
# The schemes of the job server and of Ray's client, and the port at which the head itself usually listens.
_OTHER_DOORS = ("http://", "https://", "ray://")
_PORT = 6379


# What Ray takes a process by: https://docs.ray.io/en/latest/ray-security/token-auth.html, and TLS.
_ADMISSION = (
    "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_USE_TLS", "RAY_TLS_SERVER_CERT",
    "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT",
)  # fmt: skip


def admission(environ: Mapping[str, str]) -> dict[str, str]:
    """What a child that speaks to a running Ray must have, its token included; no other child gets it."""
    return {name: environ[name] for name in _ADMISSION if environ.get(name)}


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    address = request.ray or (case.environment or {}).get(ADDRESS, "").strip()
    if not address:
        raise NotApplicable(f"no running Ray cluster was named (--ray ADDRESS, or {ADDRESS})")
    scheme = next((door for door in _OTHER_DOORS if address.startswith(door)), None)
    if scheme is not None:
        host = address.removeprefix(scheme).partition("/")[0].rpartition(":")[0] or address.removeprefix(scheme)
        raise NotApplicable(f"{address} is not the head's own address, which tells its nodes (--ray {host}:{_PORT})")
    require_import(case, "ray")
    given = case.plan.settings if case.plan is not None else {}
    own = {name: str(given[f"env.{name}"].value) for name in _ADMISSION if f"env.{name}" in given}
    speaks = admission({**of(request), **own})
    return {"cluster": Job(arguments={"address": address}, environ=speaks, time_limit=SECONDS)}


ray_cluster = Probe(
    name="ray_cluster",
    level=Level.IMPORTS,
    child=Path(__file__).parent / "children" / "ray_state.py",
    jobs=_jobs,
    needs=("packages.ray",),
    reads=("environment",),
    seconds=4.0,
)
