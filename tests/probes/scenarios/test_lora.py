"""The ``lora`` scenario: what it records of a real engine, and that RLD214 finds what is broken; the ``sleep`` scenario
as far as it goes without a GPU: what it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.lora import check

from rldoctor.api import Case, Grade, NotApplicable, Outcome
from rldoctor.api.probes import Basis, Request
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.lora import lora
from rldoctor.probes.scenarios.sleep import sleep
from tests.live import cases_of_faults
from tests.plans import case as planned

SERVED = planned(engine__enable_lora=True, engine__max_lora_rank=16, lora__rank=8, lora__alpha=32)
ASLEEP: dict[str, Any] = {"engine__enable_sleep_mode": True, "sleep__level": 1}


LATE = "lora:one_late,lora:anything_fits"


@pytest.fixture(scope="module")
def played(patient: Path) -> dict[str, Case]:
    """What the healthy engine shows, and one with the fault."""
    return cases_of_faults(patient, lora, faults=["", LATE], plan=SERVED.plan)


@pytest.mark.engine
def test_a_healthy_engine_applies_adapters(played: dict[str, Case]) -> None:
    case = played[""]
    job = case.observations["lora"]["lora"]
    assert job["ended"] == "done", (job["records"].get("exceptions"), job["tail"][-5:])
    assert job["records"]["adapters"]["rank"] == 8 and job["records"]["adapters"]["modules"] == 14
    assert judge_one(check, case).outcome is Outcome.PASS


@pytest.mark.engine
def test_an_engine_that_is_one_adapter_late(played: dict[str, Case]) -> None:
    late, above = (f.message for f in judge_one(check, played[LATE]).findings if f.grade is Grade.OBSERVED)
    assert "it ignores the adapter (first)" in late and "(second)" in late
    assert "without a word" in above


def test_who_serves_no_adapters_is_not_asked() -> None:
    for case in (planned(), planned(engine__enable_lora=True, lora__merged=True)):
        with pytest.raises(NotApplicable):
            lora.runs(case, Request(), Basis())


def test_ranks_that_are_given_as_text() -> None:
    reported = planned(engine__enable_lora=True, engine__max_lora_rank="32", lora__rank="16", lora__alpha="auto")
    arguments = lora.runs(reported, Request(), Basis())["lora"].arguments
    assert (arguments["rank"], arguments["alpha"], arguments["limit"]) == (16, 32, 32)
    unknown = planned(engine__enable_lora=True, engine__max_lora_rank=16, lora__rank="all")
    assert lora.runs(unknown, Request(), Basis())["lora"].arguments["rank"] == 8


def test_a_launch_with_sleep_on_a_gpu_gets_an_engine_that_sleeps() -> None:
    case = planned(**ASLEEP, env__PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    run = sleep.runs(case, Request(), Basis(device="cuda"))["sleep"]
    assert run.engine.options["enable_sleep_mode"] is True
    assert dict(run.engine.environ) == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert run.arguments == {"levels": [1], "cycles": 20}
    # Adapters change the names of the weights that are loaded after level 2.
    assert run.engine.alone


@pytest.mark.parametrize(
    ("settings", "device"),
    [(ASLEEP, "cpu"), ({}, "cuda"), ({**ASLEEP, "sleep__level": 0}, "cuda")],
    ids=["on the CPU", "awake", "level 0"],
)
def test_what_does_not_sleep_is_not_asked(settings: dict[str, Any], device: str) -> None:
    with pytest.raises(NotApplicable):
        sleep.runs(planned(**settings), Request(), Basis(device=device))
