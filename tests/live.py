"""Real probes for tests: the case that they leave behind."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rldoctor.api import Case, Level
from rldoctor.api.facts import Gpus, ModelFiles
from rldoctor.api.probes import Job, Request
from rldoctor.catalogue.scenario import Scenario
from rldoctor.facts import packages
from rldoctor.flow.depth import Depth
from rldoctor.flow.probe import run_probes
from rldoctor.plan.model import RolloutPlan
from rldoctor.probes.basis import basis
from rldoctor.probes.boots import Asked, plan_boots
from rldoctor.probes.engines import CHILD, play
from rldoctor.probes.imports import imports
from rldoctor.probes.rollout import rollout
from rldoctor.probes.runner import run_job

FAULTY = Path(__file__).parent / "probes" / "faults" / "faulty_engine.py"
# Options that every engine on a GPU gets, as JSON: what an unusual build of vLLM needs.
GPU_ENGINE: dict[str, object] = json.loads(os.environ.get("RLDOCTOR_GPU_ENGINE", "{}"))


def imports_case(python: Path) -> Case:
    """What the import probe sees in an environment."""
    request = Request(python=python)
    found = packages.collect(request)
    return run_probes(Case(packages=found), [imports], request, Depth(Level.IMPORTS), lambda _: None)


def scenario_case(
    python: Path,
    *scenarios: Scenario,
    fault: str | None = None,
    engine: Mapping[str, object] | None = None,
    plan: RolloutPlan | None = None,
    model: ModelFiles | None = None,
    request: Request | None = None,
    gpus: Gpus | None = None,
) -> Case:
    """What scenarios see of the environment's vLLM, as few engines as they need. ``fault`` (``module:function`` under
    ``probes/faults``) breaks every engine in that way, ``engine`` holds options that all of them get, ``gpus`` is where
    they run in place of the CPU."""
    request = request or Request(python=python)
    case = Case(packages=packages.collect(request), model=model, plan=plan, gpus=gpus)
    engine = {**(GPU_ENGINE if gpus is not None else {}), **(engine or {})}
    base = basis(case, request)
    environ = dict(base.environ)
    if fault:
        environ["RLDOCTOR_FAULT"] = fault
    if engine.get("max_model_len"):
        environ["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
    base = replace(base, options={**base.options, **engine}, environ=environ)
    asked = [Asked(one, name, run) for one in scenarios for name, run in one.runs(case, request, base).items()]
    reported = play(case, request, base, plan_boots(asked, base), lambda _: None, FAULTY if fault else CHILD)
    return replace(case, observations=reported)


def rollout_case(
    python: Path, fault: str | None = None, engine: Mapping[str, object] | None = None, model: ModelFiles | None = None
) -> Case:
    """What the rollout scenario sees of the engine, or of one with a fault of ``faults/rollout.py``."""
    return scenario_case(python, rollout, fault=f"rollout:{fault}" if fault else None, engine=engine, model=model)


def run_child(tmp_path: Path, source: str, seconds: float = 60.0, **job: Any) -> Any:
    """Runs a child of this source under this interpreter; it finds the children's own modules."""
    child = tmp_path / "child.py"
    child.write_text(CHILD_HEAD + source)
    reported = Job(arguments=job.pop("arguments", {}), time_limit=seconds, **job)
    return run_job(child, reported, "test child", Request())


CHILDREN = imports.child.parent
CHILD_HEAD = f"""import os, signal, subprocess, sys, time
sys.path.insert(0, {str(CHILDREN)!r})
import report
from report import emit, run, stage
"""
