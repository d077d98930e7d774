"""What RLD206, RLD207 and RLD208 make of sleep and wake-up. The observations are written by hand, after the sources of
the scenario and of vLLM's sleep allocator: sleep mode needs a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.rollout import allocator, memory_overcommitted, sleep_wake

from rldoctor.api import Case, Check, Finding, Grade, Outcome
from rldoctor.judge import judge_one
from tests.observations import link, scenario_case
from tests.plans import case as planned

MIB = 1 << 20
BEFORE = 70_000 * MIB
SAME = {"scores": [-2.0] * 8, "seen": [-0.5] * 8}
OTHER = {"scores": [-9.0] * 8, "seen": [-0.5] * 8}
STALE = {"scores": [-2.0] * 8, "seen": [-4.0] * 8}
VARIABLE = "env__PYTORCH_CUDA_ALLOC_CONF"
ASLEEP: dict[str, Any] = {
    "engine__enable_sleep_mode": True,
    "sleep__level": 2,
    VARIABLE: "expandable_segments:True",
}


def cycles(freed: int = 60, leak: int = 0) -> list[dict[str, Any]]:
    return [
        {"level": 2, "asleep": BEFORE + (freed - leak * i) * MIB, "awake": BEFORE - leak * i * MIB} for i in range(20)
    ]


def told(**records: Any) -> Case:
    healthy: dict[str, Any] = {
        "held": 66 * MIB,
        "free": {"before": BEFORE},
        "start": SAME,
        "cycles": cycles(),
        "after": {"2": SAME},
    }
    return scenario_case("sleep", plan=planned(**ASLEEP).plan, **{**healthy, **records})


def observed(check: Check, case: Case) -> list[Finding]:
    return [finding for finding in judge_one(check, case).findings if finding.grade is not Grade.DECLARED]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (sleep_wake.check, "level 2 changes nothing, 20 cycles in all"),
        (allocator.check, "gives back 60 MiB, holding 66"),
        (memory_overcommitted.check, "20 cycles of sleep cost 0 MiB"),
    ],
    ids=["RLD208", "RLD207", "RLD206"],
)
def test_an_engine_that_sleeps_well(check: Check, said: str) -> None:
    # With nothing for the declared sides to find.
    case = replace(told(), plan=planned(**{**ASLEEP, VARIABLE: ""}).plan, packages=planned().packages)
    result = judge_one(check, case)
    assert result.outcome is Outcome.PASS and said in str(result.reason)


@pytest.mark.parametrize(("after", "said"), [(OTHER, "what it computes"), (STALE, "cached prompts")])
def test_an_engine_that_wakes_up_another(after: dict[str, Any], said: str) -> None:
    (finding,) = observed(sleep_wake.check, told(after={"2": after}))
    assert said in finding.message and finding.grade is Grade.REPRODUCED
    assert finding.fixes[0].edits[0].option == "sleep.level"


def test_an_engine_that_fails_in_a_cycle() -> None:
    failed = {"level": 2, "cycle": 3, "exceptions": [link("RuntimeError", "CUDA error: invalid argument")]}
    (finding,) = observed(sleep_wake.check, told(failed=failed))
    assert "fails in cycle 3 of sleep level 2: RuntimeError: CUDA error" in finding.message


def test_an_allocator_that_refuses_expandable_segments() -> None:
    exceptions = [link("AssertionError", "Expandable segments are not compatible with memory pool.")]
    case = scenario_case("sleep", ended="not-run", plan=planned(**ASLEEP).plan, exceptions=exceptions)
    (finding,) = observed(allocator.check, case)
    assert finding.fixes[0].edits[0].value == "expandable_segments:False"
    assert not observed(sleep_wake.check, case)


def test_sleep_that_frees_nothing() -> None:
    (finding,) = observed(allocator.check, told(cycles=cycles(freed=2)))
    assert "gives back 2 MiB when it sleeps, and holds 66 MiB" in finding.message
    assert not observed(allocator.check, told(held=3 * MIB, cycles=cycles(freed=0)))


def test_cycles_that_cost_memory() -> None:
    (finding,) = observed(memory_overcommitted.check, told(cycles=cycles(leak=12)))
    assert "keeps 11 MiB more with every cycle" in finding.message
    assert not observed(memory_overcommitted.check, told(cycles=cycles(leak=2)))
