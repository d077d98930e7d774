"""Real probes for tests: the case that they leave behind."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.api import Case, Level
from rldoctor.api.facts import Gpus, ModelFiles
from rldoctor.api.probes import Job, Request
from rldoctor.catalogue.probe import JobResult, ProbeError
from rldoctor.catalogue.scenario import Basis, Scenario
from rldoctor.facts import packages
from rldoctor.flow.depth import Depth
from rldoctor.flow.probe import run_probes
from rldoctor.plan.model import RolloutPlan
from rldoctor.probes.basis import basis
from rldoctor.probes.boots import Asked, Boot, plan_boots
from rldoctor.probes.capture import Log
from rldoctor.probes.engines import CHILD, Observations, deliver, job, play, separate
from rldoctor.probes.imports import imports
from rldoctor.probes.runner import run_job

FAULTY = Path(__file__).parent / "probes" / "faults" / "faulty_engine.py"
# What stands before the output of a fork there, and its name.
FORK = re.compile(r"^fork (.*)\n", re.MULTILINE)
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
    base, boots = _planned(case, request, scenarios, engine, fault)
    reported = play(case, request, base, boots, lambda _: None, FAULTY if fault else CHILD)
    return replace(case, observations=reported)


def cases_of_faults(
    python: Path,
    *scenarios: Scenario,
    faults: Iterable[str],
    plan: RolloutPlan | None = None,
    model: ModelFiles | None = None,
) -> dict[str, Case]:
    """What scenarios see of one engine after another, each broken in its own way; ``""`` is the healthy one. As many
    boots as for a single engine, so these must be engines in one process (see ``probes/faults/faulty_engine.py``)."""
    faults = list(faults)
    request = Request(python=python)
    case = Case(packages=packages.collect(request), plan=plan, model=model)
    base, boots = _planned(case, request, scenarios, {}, "".join(f"{fault};" for fault in faults))
    seen: dict[str, Observations] = {fault: {} for fault in faults}
    for boot in boots:
        asked = _programs(boot)
        told = job(case, request, base, boot, asked)
        told = replace(told, time_limit=told.time_limit * len(faults))
        result = run_job(FAULTY, told, f"engine {boot.name}", request)
        for fault in faults:
            if fault not in result.records:
                raise AssertionError(f"{fault or 'the healthy engine'} was not played: {result.tail[-20:]}")
            played = separate(_of_fork(result, fault, base), asked)
            seen[fault].setdefault("rollout", {})[boot.name] = msgspec.to_builtins(played.boot)
            deliver(seen[fault], boot, played, asked)
    return {fault: replace(case, observations=observations) for fault, observations in seen.items()}


def only(scenario: Scenario, run: str, seconds: float = 300.0) -> Scenario:
    """One of a scenario's runs, with this time limit."""
    every = scenario.runs
    return replace(scenario, runs=lambda *given: {run: replace(every(*given)[run], time_limit=seconds)})


@dataclass(frozen=True)
class Played:
    """Scenarios on the engines of a launch, all of them with this fault and these options."""

    scenarios: tuple[Scenario, ...]
    plan: RolloutPlan | None = None
    model: ModelFiles | None = None
    fault: str | None = None
    engine: Mapping[str, object] = field(default_factory=dict)


def cases_of_one_import(python: Path, launches: Mapping[str, Played]) -> dict[str, Case]:
    """What :func:`scenario_case` sees of several launches, by their names. Their engines boot one after another in
    forks of one process that has imported vLLM, which takes four fifths of a boot."""
    request = Request(python=python)
    found = packages.collect(request)
    cases: dict[str, tuple[Case, Basis, list[Boot]]] = {}
    jobs: dict[str, Job] = {}
    for name, launch in launches.items():
        case = Case(packages=found, plan=launch.plan, model=launch.model)
        base, boots = _planned(case, request, launch.scenarios, launch.engine, launch.fault)
        cases[name] = case, base, boots
        jobs |= {f"{name}, {boot.name}": job(case, request, base, boot, _programs(boot)) for boot in boots}
    plain = {name: {"arguments": one.arguments, "environ": one.environ} for name, one in jobs.items()}
    limit = sum(one.time_limit for one in jobs.values())
    result = run_job(FAULTY, Job(arguments={"jobs": plain}, time_limit=limit), "engines", request)
    seen: dict[str, Case] = {}
    for name, (case, base, boots) in cases.items():
        observations: Observations = {"rollout": {}}
        for boot in boots:
            fork = f"{name}, {boot.name}"
            if fork not in result.records:
                raise AssertionError(f"{fork} was not played: {result.tail[-20:]}")
            played = separate(_of_fork(result, fork, base), _programs(boot))
            observations["rollout"][boot.name] = msgspec.to_builtins(played.boot)
            deliver(observations, boot, played, _programs(boot))
        seen[name] = replace(case, observations=observations)
    return seen


def _programs(boot: Boot) -> list[Asked]:
    """What is played on the engine of a boot, beside what it shows by itself."""
    return [one for one in boot.asked if one.scenario.program is not None]


def _of_fork(result: JobResult, fork: str, base: Basis) -> JobResult:
    """A fork's report in the form of a job's."""
    reported = result.records[fork]
    before = {name: value for name, value in result.records.items() if not (isinstance(value, dict) and "end" in value)}
    records = {**before, **reported["records"], "basis": msgspec.to_builtins(base)}
    end, code = reported["end"], reported["exit_code"]
    ended = "died" if end is None else "done" if end["end"] == "done" else "raised"
    error = msgspec.convert(end["error"], ProbeError) if ended == "raised" else None
    said = signal.Signals(-code).name if code < 0 else None
    log, tail = _printed(result, fork)
    return replace(
        result,
        ended=ended,
        records=records,
        exit_code=code,
        signal=said,
        error=error,
        seconds=reported["seconds"],
        log=log,
        tail=tail,
    )


def _printed(result: JobResult, fork: str) -> tuple[str, tuple[str, ...]]:
    """The log of a fork and its last lines: what was printed before the first, and by this one. The others' words would
    be read as its own."""
    assert result.log is not None
    whole = Path(result.log)
    before, *parts = FORK.split(whole.read_text(errors="replace"))
    printed = dict(zip(parts[::2], parts[1::2], strict=True))
    log = Log(whole.with_name(f"fork{list(printed).index(fork)}.txt"))
    log.add((before + printed[fork]).encode())
    log.close()
    return str(log.path), log.tail()


def _planned(
    case: Case, request: Request, scenarios: Iterable[Scenario], engine: Mapping[str, object], fault: str | None
) -> tuple[Basis, list[Boot]]:
    """The engine for a case with some options and a fault, and as few boots as scenarios need."""
    base = basis(case, request)
    environ = dict(base.environ)
    if fault:
        environ["RLDOCTOR_FAULT"] = fault
    if engine.get("max_model_len"):
        environ["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
    base = replace(base, options={**base.options, **engine}, environ=environ)
    asked = [Asked(one, name, run) for one in scenarios for name, run in one.runs(case, request, base).items()]
    return base, plan_boots(asked, base)


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
from report import emit, folder_beside, run, stage
"""
