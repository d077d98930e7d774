"""Sleep and wake-up that crash or corrupt with this engine, Python or level.

What it looks for
    In a launch file: sleep mode under a Python before 3.12; level 2, which discards the weights, on a vLLM that does
    not restore the model's buffers (before 0.8.5). In a running engine on a GPU, for a launch whose engine sleeps:
    twenty cycles at its level, with the outputs before and after. In a log: Python's fatal ``none_dealloc: deallocating
    None``, sleep mode that is not enabled, not available or in use twice in one process, memory that grew while the
    engine fell asleep, and an illegal memory access right after sleep or wake-up.

Why it hurts
    vLLM's sleep allocator is an abi3 extension compiled where ``None`` cannot be freed (3.12 and later). Under an older
    Python every sleep and wake-up drops a reference to it, and after about a thousand cycles the interpreter aborts, in
    the middle of a run. Level 2 without the buffers gives wrong rotary positions: garbage, and no error.

How sure it is
    Both were read in the sources and reported with the same numbers. How many cycles a run has time for is not in the
    launch file, unless it says how many steps it takes. The outputs after a wake-up are those before, up to rounding
    (``agreement.py``), once the weights are sent again after level 2.

The fix and its cost
    Python 3.12 or newer (a new environment). Or no sleep mode: trainer and engine must then fit together. Level 1 keeps
    the weights in host memory.

References
    https://github.com/OpenRLHF/OpenRLHF/issues/1052, https://github.com/modelscope/ms-swift/issues/5231
    https://github.com/vllm-project/vllm/pull/16889, https://github.com/vllm-project/vllm/issues/16564
    https://github.com/vllm-project/vllm/issues/28714, https://github.com/vllm-project/vllm/issues/29341
    ``csrc/cumem_allocator.cpp``
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
    release,
)

from ..exceptions import root_of
from .agreement import noise_of
from .allocator import refuses_segments
from .observed import describe, records, require, runs
from .slept import Told, changes

check = Check("RLD208", "sleep-wake-unsafe", __doc__)

SLEEP = "engine.enable_sleep_mode"
LEVEL = "sleep.level"
# None is immortal from here on: https://peps.python.org/pep-0683/
IMMORTAL_NONE = (3, 12)
# Fewer cycles than None has references when a trainer runs.
FEW_STEPS = 400
# A sample or a message that tells of it.
QUOTED = re.compile(r"""["'`]Fatal Python error""")
BUFFERS_RESTORED = (0, 8, 5)
URL = "https://github.com/OpenRLHF/OpenRLHF/issues/1052"


@check.declared(needs=["plan", "packages.vllm", "packages.python"])
def none_is_freed(case: Case) -> Iterator[Finding | Reach]:
    """Sleep mode on a Python in which references to None are counted."""
    plan = plan_of(case)
    _require_sleep(plan)
    python = case.packages.python if case.packages is not None else ""
    try:
        version = tuple(int(part) for part in python.split(".")[:2])
    except ValueError:
        raise NotChecked(f"Python {python!r} is no version") from None
    steps = plan.value("trainer.steps")
    if version >= IMMORTAL_NONE or (isinstance(steps, int) and 0 < steps < FEW_STEPS):
        yield Reach(f"Python {python}" + (f", {steps} steps" if steps else ""))
        return
    yield check.finding(
        f"the engine sleeps and wakes under Python {python}: vLLM's sleep allocator drops a reference to None each "
        "time, and after about a thousand cycles the interpreter aborts (none_dealloc)",
        severity=Severity.WARNING,
        evidence=(*cite(plan, SLEEP, LEVEL, "trainer.steps"), Evidence(text=f"Python {python}", source="environment")),
        fixes=(_PYTHON, *_awake(plan)),
        url=URL,
    )


@check.declared(needs=["plan", f"plan.{LEVEL}", "packages.vllm"])
def buffers_are_lost(case: Case) -> Iterator[Finding | Reach]:
    """Level 2 on a release that forgets the model's buffers."""
    plan = plan_of(case)
    _require_sleep(plan)
    version = release(case)
    if plan.value(LEVEL) != 2 or version is None:
        yield Reach(f"sleep level {plan.value(LEVEL)}")
        return
    if version >= BUFFERS_RESTORED:
        yield Reach("this vLLM restores the model's buffers after level 2")
        return
    yield check.finding(
        f"sleep level 2 on vLLM {'.'.join(map(str, version))} loses the model's buffers (rotary tables): outputs are "
        "wrong after the first wake-up",
        evidence=cite(plan, LEVEL),
        fixes=(
            Fix.safe(
                "keep the weights in host memory (level 1)", {LEVEL: 1}, side_effects="host memory for the weights"
            ),
            Fix(title="or a vLLM that restores them", commands=("pip install 'vllm>=0.8.5'",)),
        ),
        url="https://github.com/vllm-project/vllm/pull/16889",
    )


def _require_sleep(plan: RolloutPlan) -> None:
    if plan.value("sleep.enabled") is False or plan.value(LEVEL) == 0:
        raise NotApplicable("the engine does not sleep")
    if plan.value(SLEEP) is not True and plan.value("sleep.enabled") is not True:
        raise NotApplicable("the engine does not sleep")


def _awake(plan: RolloutPlan) -> Iterator[Fix]:
    """Sleep mode off, in the option that the launch has for it."""
    option = next((o for o in (LEVEL, SLEEP, "sleep.enabled") if _settable(plan, o)), None)
    if option is not None:
        yield Fix.unsafe(
            "or let the engine stay awake",
            {option: 0 if option == LEVEL else False},
            side_effects="trainer and engine must fit on the device together",
        )


def _settable(plan: RolloutPlan, option: str) -> bool:
    setting = plan.get(option)
    return setting is not None and setting.source in ("given", "default")


@check.observed(needs=["observations.sleep"])
def outputs_after_waking(case: Case) -> Iterator[Finding | Reach]:
    """What the engine tells before it sleeps and after it woke up."""
    plan = plan_of(case)
    for job in runs(case, "sleep"):
        failed = records(job).get("failed")
        if refuses_segments(job):
            raise NotApplicable("the sleep allocator refuses expandable segments (RLD207)")
        if failed is not None:
            root = root_of(failed["exceptions"]) or {}
            yield check.finding(
                f"{describe(job)} fails in cycle {failed['cycle']} of sleep level {failed['level']}: "
                f"{root.get('type')}: {root.get('message')}"[:400],
                grade=Grade.REPRODUCED,
                evidence=cite(plan, SLEEP, LEVEL),
                fixes=tuple(_awake(plan)),
            )
            continue
        start, noise, cycles = require(job, "start"), noise_of(job), len(require(job, "cycles"))
        by_level: dict[int, list[Told]] = {}
        for told in require(job, "after"):
            by_level.setdefault(told["level"], []).append(told)
        for level, rows in by_level.items():
            judged = [(row, dict(changes(start, row, noise))) for row in rows]
            row, found = next((pair for pair in judged if pair[1]), judged[0])
            if not found:
                yield Reach(f"{describe(job)}: level {level} changes nothing, {cycles} cycles in all")
                continue
            parts = ", weights and cache woken one after the other" if row["parts"] else ""
            yield check.finding(
                f"{describe(job)} is not the same after sleep level {level}: {next(iter(found))} (cycle "
                f"{row['cycle']}{parts})",
                grade=Grade.REPRODUCED,
                evidence=(
                    *cite(plan, SLEEP, LEVEL),
                    *(Evidence(text=text, source="sleep scenario") for text in found.values()),
                ),
                fixes=(
                    *(
                        Fix.unsafe(
                            "keep the weights in host memory (level 1)",
                            {LEVEL: 1},
                            side_effects="host memory for the weights",
                        )
                        for _ in range(level == plan.value(LEVEL) == 2)
                    ),
                    *_awake(plan),
                ),
            )
        untold = records(job).get("unread", {}).get("level 2")
        if untold is not None:
            yield Reach(f"level 2 was not played: {untold}")


_PYTHON = Fix(
    title="run on Python 3.12 or newer, where None is never freed",
    commands=("conda create -n rl python=3.12",),
    side_effects="a new environment with everything that the run needs",
)
_STOP_SLEEPING = Fix(title="or switch sleep mode off (sleep_level 0, --vllm_enable_sleep left out)")


@check.logged("Fatal Python error: none_dealloc")
def interpreter_aborted(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Python's own words when the last reference to None is gone."""
    if QUOTED.search(event.line):
        return
    python = event.versions.get("python")
    yield check.finding(
        f"Python{f' {python}' if python else ''} freed None: the sleep allocator dropped one reference in every sleep "
        "and wake-up",
        fixes=(
            _PYTHON,
            _STOP_SLEEPING,
            Fix(title="or restart from a checkpoint every few hundred steps until then"),
        ),
        url=URL,
    )


@check.logged("Sleep mode is not enabled in the model config")
def never_enabled(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``sleep()`` on an engine that was not built for it."""
    yield check.finding(
        "the engine is asked to sleep and was built without sleep mode",
        fixes=(Fix.unsafe("build it with sleep mode", {SLEEP: True}),),
    )


@check.logged(
    "Sleep mode is not supported on current platform",
    "Sleep mode is only supported on CUDA devices",
    "cumem allocator is not available",
    "used for one instance per process.",
    "Memory usage increased after sleeping",
)
def not_possible_here(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The engine's own conditions for sleep mode."""
    what = {
        "used for one instance per process.": "two engines with sleep mode are built in one process",
        "Memory usage increased after sleeping": "memory on the device grew while the engine fell asleep: another "
        "process allocated meanwhile",
    }.get(event.literal, "sleep mode is not available in this build of vLLM or on this device")
    yield check.finding(what, fixes=(Fix(title="switch sleep mode off (enable_sleep_mode=False, sleep_level 0)"),))


@check.logged("CUDA Error: invalid argument at ")
def mapping_left_over(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The sleep allocator maps memory where an earlier cycle left a mapping, or an error, behind."""
    if not event.search(r"cumem_allocator\.cpp|create_and_map|unmap_and_release"):
        return
    yield check.finding(
        "the sleep allocator cannot map its memory again: an earlier sleep or wake-up failed half-way and left "
        "mappings behind",
        fixes=(
            Fix(title="look further up for the first error of a sleep or wake-up, which is mostly want of memory"),
            Fix(title="start the engine anew: this one does not come back"),
            _STOP_SLEEPING,
        ),
        url="https://github.com/vllm-project/vllm/issues/36651",
    )


@check.logged("an illegal memory access was encountered", unless=("RotaryEmbedding",))
def fault_after_sleep(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Kernels that ran on memory which sleep had taken away, or wake-up had not given back everywhere."""
    around = "\n".join(event.before)
    asleep = "sleep freed" in around or "POST /sleep" in around or "Sleep mode freed" in around
    if not asleep and "wake up" not in around and "wake_up" not in around:
        return
    yield check.finding(
        "illegal memory access right after " + ("the engine fell asleep" if asleep else "the engine woke up"),
        fixes=(
            Fix(title="finish or abort every request before sleep() is called"),
            Fix(title="synchronize all ranks after wake_up before the next request is sent"),
            _STOP_SLEEPING,
        ),
        url="https://github.com/vllm-project/vllm/issues/28714",
    )
