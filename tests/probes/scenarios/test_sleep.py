"""The ``sleep`` scenario, played on an engine that pretends to sleep: what it does and records, and that the checks
find what wakes up wrong. On a GPU the same is played on real sleep mode (``test_on_gpu.py``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout import allocator, sleep_wake

from rldoctor.api import Case, Check, Grade
from rldoctor.api.probes import Engine, Run
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.sleep import sleep
from tests.live import cases_of_faults
from tests.plans import case as planned

CYCLES = 4
ASLEEP = planned(engine__enable_sleep_mode=True).plan
ASLEEP_AND_WELL = "sleep:pretended"
WOKEN_WRONG = "sleep:pretended,sleep:sleepless,sleep:woken_wrong"


def asleep(cycles: int) -> Run:
    """Without the wish for a GPU and for vLLM's own sleep mode."""
    engine = Engine(options={"num_gpu_blocks_override": 2048})
    return Run(engine=engine, arguments={"levels": [1, 2], "cycles": cycles}, time_limit=200.0)


anywhere = replace(sleep, runs=lambda *_: {"sleep": asleep(CYCLES)})


@pytest.fixture(scope="module")
def played(patient: Path) -> dict[str, Case]:
    """What an engine shows that sleeps, and one that does not and wakes up with other weights."""
    cases = cases_of_faults(patient, anywhere, faults=[ASLEEP_AND_WELL, WOKEN_WRONG], plan=ASLEEP)
    for case in cases.values():
        job = case.observations["sleep"]["sleep"]
        assert job["ended"] == "done", (job["records"].get("exceptions"), job["tail"][-5:])
    return cases


def observed(check: Check, case: Case) -> list[str]:
    return [one.message for one in judge_one(check, case).findings if one.grade is Grade.REPRODUCED]


@pytest.mark.engine
def test_levels_take_turns_and_weights_wake_up_first_every_other_time(played: dict[str, Case]) -> None:
    case = played[ASLEEP_AND_WELL]
    reported: dict[str, Any] = case.observations["sleep"]["sleep"]["records"]
    assert "failed" not in reported and "unread" not in reported["unread"]
    cycles = [(cycle["level"], cycle["parts"]) for cycle in reported["cycles"]]
    assert cycles == [(1, False), (2, False), (1, True), (2, True)]
    assert all(cycle["asleep"] > cycle["awake"] == reported["free"]["before"] for cycle in reported["cycles"])
    assert [(row["level"], row["parts"]) for row in reported["after"]] == cycles
    assert len(reported["start"]["seen"]["tops"][0]) >= 5
    assert not observed(sleep_wake.check, case) and not observed(allocator.check, case)


@pytest.mark.engine
def test_memory_that_is_not_given_back_and_weights_that_come_back_wrong(played: dict[str, Case]) -> None:
    case = played[WOKEN_WRONG]
    (nothing,) = observed(allocator.check, case)
    assert "gives back 0 MiB when it sleeps" in nothing
    # What is sent anew after level 2 is right again; but who has not slept has not forgotten what it computed before.
    (wrong,) = [one for one in judge_one(sleep_wake.check, case).findings if one.grade is Grade.REPRODUCED]
    assert "not the same after sleep level 1 and 2: what it computes differs" in wrong.message
    after_two = [one.text for one in wrong.evidence if one.text.startswith("level 2")]
    assert [text.split(":")[0] for text in after_two] == ["level 2, a prompt seen before"]
