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

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import keeps_buffers, release

check = Check("RLD208", "sleep-wake-unsafe", __doc__, before=("RLD305",))

SLEEP = "engine.enable_sleep_mode"

LEVEL = "sleep.level"

# None is immortal from here on: https://peps.python.org/pep-0683/
IMMORTAL_NONE = (3, 12)

# Fewer cycles than None has references when a trainer runs.
FEW_STEPS = 400
# More cycles than any trainer was seen to survive.
MANY_STEPS = 2000

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
        severity=Severity.ERROR if isinstance(steps, int) and steps >= MANY_STEPS else Severity.WARNING,
        evidence=(*cite(plan, SLEEP, LEVEL, "trainer.steps"), Evidence(text=f"Python {python}", source="environment")),
        fixes=(NEWER_PYTHON, *awake(plan)),
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
    if keeps_buffers(case):
        yield Reach(f"{plan.framework} restores the model's buffers itself after level 2")
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


def awake(plan: RolloutPlan) -> Iterator[Fix]:
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


NEWER_PYTHON = Fix(
    title="run on Python 3.12 or newer, where None is never freed",
    commands=("conda create -n rl python=3.12",),
    side_effects="a new environment with everything that the run needs",
)
