"""The allocator setting ``expandable_segments:True`` together with the engine's sleep mode.

What it looks for
    In a launch file, its Ray runtime environment and the shell: ``PYTORCH_CUDA_ALLOC_CONF`` with
    ``expandable_segments:True`` where the engine's sleep mode is on, for the vLLM releases that refuse it (0.8.0 to
    0.20.0). In a running engine on a GPU with the launch's own setting: that refusal, and sleep that gives no memory
    back. In a log: the assertion of vLLM's sleep allocator, unsloth's standby, and the KV connectors' refusal.

Why it hurts
    The sleep allocator hands memory to torch through a pool of its own, which expandable segments bypass: vLLM asserts
    at start. Where nothing asserts (vllm-ascend, vLLM before 0.8), sleeping frees nothing and the trainer runs out of
    memory.

How sure it is
    The condition is the allocator's own: the text of one variable. Frameworks that set the variable for the engine's
    processes themselves (EasyR1, unsloth) are left out. From 0.20.1 on vLLM switches the setting off around its pool.

The fix and its cost
    ``expandable_segments:False`` for the engine's processes: more fragmentation in the trainer, where it shares the
    variable. Or no sleep mode, or a newer vLLM.

References
    https://github.com/OpenRLHF/OpenRLHF/issues/1011, https://github.com/vllm-project/vllm/pull/40812
    https://github.com/modelscope/ms-swift/issues/6636, https://github.com/pytorch/pytorch/issues/147851
    ``vllm/device_allocator/cumem.py`` (0.8.0 to 0.23.0)
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
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.engine import release

from ..observed.rollout import describe, refuses_segments, require, runs

check = Check("RLD207", "sleep-mode-allocator-conflict", __doc__)

VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
SLEEP = "engine.enable_sleep_mode"
EXPANDABLE = "expandable_segments:True"
# Before vLLM could sleep (vllm/device_allocator came with 0.7.0), frameworks freed its cache and moved its weights by
# themselves.
SLEEPS_FROM = (0, 7)
# The assertion came with 0.8.0, and gave way to a switch around the pool in 0.20.1.
ASSERTS_FROM, ASSERTS_BEFORE = (0, 8), (0, 20, 1)
# They give the engine's processes a value of their own.
SETS_IT_ITSELF = ("EasyR1", "unsloth")
URL = "https://github.com/OpenRLHF/OpenRLHF/issues/1011"


@check.declared(needs=["plan", "packages.vllm"])
def expandable_segments_with_sleep(case: Case) -> Iterator[Finding | Reach]:
    """The engine sleeps, and its processes get expandable segments."""
    plan = plan_of(case)
    if plan.value(SLEEP) is not True and plan.value("sleep.enabled") is not True:
        raise NotApplicable("the engine does not sleep")
    if plan.framework in SETS_IT_ITSELF:
        raise NotApplicable(f"{plan.framework} sets {VARIABLE} for the engine itself")
    version = release(case)
    if version is None:
        raise NotChecked("the vLLM release is not known")
    if version < SLEEPS_FROM:
        raise NotApplicable("vLLM has no sleep mode before 0.7.0")
    setting = plan.get(f"env.{VARIABLE}")
    if setting is not None and setting.unknown is not None:
        raise NotChecked(f"{VARIABLE}: {setting.unknown}")
    value = case.variable(VARIABLE)
    if value is None or EXPANDABLE not in value or version >= ASSERTS_BEFORE:
        shown = f"{VARIABLE} is not set" if value is None else f"{VARIABLE}={value}"
        yield Reach(f"{shown}, vLLM {'.'.join(map(str, version))}")
        return
    refuses = version >= ASSERTS_FROM
    then = "vLLM's sleep allocator refuses to start" if refuses else "sleeping does not free the engine's memory"
    shell = () if setting is not None else (Evidence(text=f"{VARIABLE}={value}", source="environment"),)
    yield check.finding(
        f"{VARIABLE} has {EXPANDABLE} while the engine's sleep mode is on: {then}",
        severity=Severity.ERROR if refuses else Severity.WARNING,
        evidence=(*cite(plan, f"env.{VARIABLE}", SLEEP, "sleep.level"), *shell),
        fixes=(
            _off(value),
            Fix.unsafe(
                "or let the engine stay awake",
                {SLEEP: False},
                side_effects="trainer and engine must fit on the device together",
            ),
            _NEWER,
        ),
        url=URL,
    )


# Less than this is within what other allocations on the device move.
SMALLEST_HELD = 16 << 20


@check.observed(needs=["observations.sleep"])
def sleeping_frees_memory(case: Case) -> Iterator[Finding | Reach]:
    """The device's free memory before and during sleep, under the launch's own allocator settings."""
    plan = plan_of(case)
    for job in case.observations["sleep"].values():
        if refuses_segments(job):
            yield check.finding(
                f"{describe(job)} does not start: its sleep allocator refuses the launch's {VARIABLE}",
                grade=Grade.REPRODUCED,
                evidence=cite(plan, f"env.{VARIABLE}", SLEEP),
                fixes=(_off(str(plan.value(f"env.{VARIABLE}", EXPANDABLE))), _NEWER),
                url=URL,
            )
            return
    for job in runs(case, "sleep"):
        held, before = require(job, "held"), require(job, "free")["before"]
        if held < SMALLEST_HELD:
            raise NotChecked("the engine holds too little to see whether it is given back")
        freed = min(cycle["asleep"] - before for cycle in require(job, "cycles"))
        if freed >= held / 2:
            yield Reach(f"{describe(job)} gives back {freed >> 20} MiB, holding {held >> 20}")
            continue
        yield check.finding(
            f"{describe(job)} gives back {freed >> 20} MiB when it sleeps, and holds {held >> 20} MiB of weights and "
            "cache",
            severity=Severity.WARNING,
            grade=Grade.REPRODUCED,
            evidence=cite(plan, f"env.{VARIABLE}", SLEEP, "sleep.level"),
            fixes=(_off(str(plan.value(f"env.{VARIABLE}", EXPANDABLE))), _NEWER),
            url=URL,
        )


def _off(value: str) -> Fix:
    return Fix.safe(
        "switch expandable segments off",
        {f"env.{VARIABLE}": switched_off(value)},
        side_effects="more fragmentation in processes that share the variable",
    )


def switched_off(value: str) -> str:
    """The variable's value with expandable segments off and everything else as it was."""
    return re.sub(r"expandable_segments:True", "expandable_segments:False", value)


_OFF = Fix.unsafe(
    "switch expandable segments off for the engine's processes (also in Ray's runtime environment)",
    {f"env.{VARIABLE}": "expandable_segments:False"},
    side_effects="more fragmentation in processes that share the variable",
)
_AWAKE = Fix(title="or switch the engine's sleep mode off (enable_sleep_mode, sleep_level, --vllm_enable_sleep)")
_NEWER = Fix(
    title="or a vLLM that switches it off around its pool",
    commands=("pip install 'vllm>=0.20.1'",),
    side_effects="the framework must go with that release",
)


# What the allocator says when it is built.
check.signature(
    'assert "expandable_segments:True" not in conf',
    "Expandable segments are not compatible with memory pool",
    "Standby mode is not supported with expandable segments",
    "is incompatible with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "expandable_segments is not supported with sleep mode",
    says=f"the engine's memory pool refuses {EXPANDABLE} (in {VARIABLE})",
    fixes=(_OFF, _AWAKE, _NEWER),
    url=URL,
)
