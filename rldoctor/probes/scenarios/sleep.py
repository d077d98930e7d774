"""The ``sleep`` scenario: an engine that sleeps and wakes up as the launch has it do, many times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.model import Level

CYCLES = 20
# A miniature's cache is small; so many blocks are some tens of MiB, enough to see whether they are given back.
BLOCKS = 8192
# The launch's own allocator settings, which the sleep allocator may refuse; newer torch reads the second name, too.
ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    plan = case.plan
    if plan is None or (plan.value("engine.enable_sleep_mode") is not True and plan.value("sleep.enabled") is not True):
        raise NotApplicable("no launch puts its engine to sleep")
    if plan.value("sleep.enabled") is False or plan.value("sleep.level") == 0:
        raise NotApplicable("the launch's engine does not sleep")
    if basis.device != "cuda":
        raise NotApplicable("vLLM has no sleep mode on the CPU")
    if request.model is not None:
        raise NotApplicable("a real model's weights are not loaded twice for it")
    level = plan.value("sleep.level")
    given = {name: plan.value(f"env.{name}") for name in ALLOCATOR}
    engine = Engine(
        options={"enable_sleep_mode": True, "num_gpu_blocks_override": BLOCKS},
        environ={name: str(value) for name, value in given.items() if value},
        # What is loaded after level 2 are the trainer's names, which an engine with adapters does not know.
        alone=True,
    )
    arguments = {"levels": [level] if level in (1, 2) else [1, 2], "cycles": CYCLES}
    return {"sleep": Run(engine=engine, arguments=arguments, time_limit=SECONDS)}


sleep = Scenario(
    name="sleep",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "sleep.py",
    runs=_runs,
    reads=("plan", "gpus"),
    seconds=6.0,
    disturbs=True,
)
