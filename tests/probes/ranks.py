"""Real runs of the probes of the level ``devices``, for the tests of their checks."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from rldoctor.api import Case, Level, RolloutPlan, Setting
from rldoctor.api.facts import Gpus, ModelFiles
from rldoctor.api.probes import Probe, Request
from rldoctor.facts import packages
from rldoctor.probes.collectives import collectives
from rldoctor.probes.placement import placement
from rldoctor.probes.runner import run_job

FAULTS = Path(__file__).parent / "faults"
NO_GPU = Gpus(vendor="none")


def plan(framework: str = "TRL", version: str | None = None, **settings: Any) -> RolloutPlan:
    """``process__total=2`` is the setting ``process.total``, given in line 7 of run.sh."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return RolloutPlan(
        framework=framework,
        version=version,
        file="run.sh",
        entry="train.py",
        settings={n: Setting(value=v, file="run.sh", line=7, key=n.removeprefix("env.")) for n, v in named.items()},
    )


def collectives_case(
    python: Path, fault: str | None = None, seconds: float = 20.0, ranks: int = 2, **settings: Any
) -> Case:
    """Ranks on the CPU, started by the environment's torchrun with the settings of a launch of two."""
    case = Case(packages=packages.collect(Request(python=python)), gpus=NO_GPU, plan=plan(process__total=2, **settings))
    return _run(
        collectives,
        case,
        python,
        FAULTS / "broken_collectives.py" if fault else None,
        fault,
        seconds=seconds,
        ranks=ranks,
    )


def nodes_cases(
    python: Path, fault: str | None = None, count: int = 2, come: int | None = None, **arguments: Any
) -> list[Case]:
    """What each of so many nodes saw, which are all on this host and started by as many agents of torchrun. ``come``:
    so many of them run at all."""
    with socket.socket() as asking:
        asking.bind(("", 0))
        port = str(asking.getsockname()[1])

    def of(number: int) -> Case:
        launcher = {"GROUP_WORLD_SIZE": count, "GROUP_RANK": number, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1"}
        environment = {name: str(value) for name, value in launcher.items()} | {"MASTER_PORT": port}
        facts = packages.collect(Request(python=python))
        case = Case(packages=facts, gpus=NO_GPU, environment=environment)
        return _run(collectives, case, python, FAULTS / "broken_collectives.py" if fault else None, fault, **arguments)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(of, range(come or count)))


def placement_case(
    python: Path, fault: str | None = None, config: dict[str, Any] | None = None, launch: RolloutPlan | None = None
) -> Case:
    """A forward pass of a miniature in the placements of a launch."""
    model = None if config is None else ModelFiles(path="model", config=config)
    case = Case(packages=packages.collect(Request(python=python)), gpus=NO_GPU, plan=launch, model=model)
    return _run(placement, case, python, FAULTS / "broken_placement.py" if fault else None, fault)


def _run(probe: Probe, case: Case, python: Path, child: Path | None, fault: str | None, **arguments: Any) -> Case:
    request = Request(python=python, level=Level.DEVICES)
    reported = {}
    for key, job in probe.jobs(case, request).items():
        more = {**arguments, **({"fault": fault} if fault else {})}
        job = replace(job, arguments={**job.arguments, **more})
        reported[key] = msgspec.to_builtins(run_job(child or probe.child, job, key, request))
    return replace(case, observations={probe.name: reported})
