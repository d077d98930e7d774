"""The ``ray_package`` probe: how much the folder has that Ray packs for the launch and copies to every node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.facts.environment import of
from rldoctor.model import Level
from rldoctor.probes.feasible import require_import

SECONDS = 30.0
# What changes how Ray packs.
_VARIABLES = (
    "RAY_max_grpc_message_size", "RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES",
)  # fmt: skip


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    plan = case.plan
    given = plan.value("ray.working_dir") if plan is not None else None
    if plan is None or not isinstance(given, str) or "://" in given:
        raise NotApplicable("no folder of this machine is copied to the nodes")
    require_import(case, "ray")
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise NotApplicable(f"{given} is not here")
    whole: Any = plan.value("ray.runtime_env")
    excludes = whole.get("excludes") if isinstance(whole, dict) else None
    left_out = [one for one in excludes if isinstance(one, str)] if isinstance(excludes, list) else []
    environ = {name: of(request)[name] for name in _VARIABLES if of(request).get(name)}
    arguments = {"folder": str(folder.absolute()), "excludes": left_out}
    return {"folder": Job(arguments=arguments, environ=environ, time_limit=SECONDS)}


ray_package = Probe(
    name="ray_package",
    level=Level.IMPORTS,
    child=Path(__file__).parent / "children" / "ray_package.py",
    jobs=_jobs,
    needs=("packages.ray", "plan"),
    seconds=2.0,
)
