"""Real probes for tests: the case that they leave behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.api import Case, Job, Level, ModelFiles, Probe, Request
from rldoctor.engine import Depth, run_probes
from rldoctor.facts import packages
from rldoctor.probes.imports import imports
from rldoctor.probes.rollout import rollout
from rldoctor.probes.runner import run_job

FAULTY = Path(__file__).parent / "probes" / "children" / "faulty_rollout.py"


def imports_case(python: Path) -> Case:
    """What the import probe sees in an environment."""
    request = Request(python=python)
    found = packages.collect(request)
    return run_probes(Case(packages=found), [imports], request, Depth(Level.IMPORTS), lambda _: None)


def rollout_case(
    python: Path, fault: str | None = None, engine: Mapping[str, object] | None = None, model: ModelFiles | None = None
) -> Case:
    """What the rollout probe sees of the engine, or of one with a fault, on a miniature of the model."""
    request = Request(python=python)
    case = Case(packages=packages.collect(request), model=model)
    (job,) = rollout.jobs(case, request).values()
    job = replace(job, arguments={**job.arguments, "engine": dict(engine or {}), "fault": fault})
    if (engine or {}).get("max_model_len"):
        job = replace(job, environ={**job.environ, "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})
    probe = replace(rollout, child=FAULTY) if fault else rollout
    result = run_job(probe, job, "miniature", request)
    return replace(case, observations={"rollout": {"miniature": msgspec.to_builtins(result)}})


def run_child(tmp_path: Path, source: str, seconds: float = 60.0, **job: Any) -> Any:
    """Runs a child of this source under this interpreter; it finds the children's own modules."""
    child = tmp_path / "child.py"
    child.write_text(CHILD_HEAD + source)
    probe = Probe(name="test", level=Level.IMPORTS, child=child, jobs=lambda case, request: {})
    return run_job(probe, Job(arguments=job.pop("arguments", {}), time_limit=seconds, **job), "child", Request())


CHILDREN = imports.child.parent
CHILD_HEAD = f"""import os, signal, subprocess, sys, time
sys.path.insert(0, {str(CHILDREN)!r})
import report
from report import emit, run, stage
"""
