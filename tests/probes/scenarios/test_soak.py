"""The soak scenario: traffic kept up on a real engine, healthy and leaking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rldoctor_checks.processes import host_memory
from rldoctor_checks.rollout import engine_internal

from rldoctor.api import Case, Grade, NotApplicable, Outcome
from rldoctor.api.probes import Basis, Request
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.soak import soak
from tests.live import scenario_case
from tests.plans import case

SHORT = case(lengths__prompt=64, lengths__response=16, engine__max_model_len=256).plan


@pytest.fixture(scope="module")
def soaked(patient: Path) -> Callable[..., Case]:
    """A soak of less than a minute, with a fault where one is named."""

    @cache
    def run(fault: str | None = None) -> Case:
        return scenario_case(
            patient,
            soak,
            fault=f"soak:{fault}" if fault else None,
            plan=SHORT,
            engine={"num_gpu_blocks_override": 20_000},  # a leak must not bring the traffic to a halt
            request=Request(python=patient, soak=0.7),
        )

    return run


def test_it_is_played_only_where_minutes_were_asked_for() -> None:
    with pytest.raises(NotApplicable, match="--soak"):
        soak.runs(Case(), Request(), Basis())
    (run,) = soak.runs(Case(), Request(soak=2), Basis()).values()
    assert run.arguments["seconds"] == 120 and run.time_limit > 120


@pytest.mark.engine
def test_a_healthy_engine_stays_as_it_is(soaked: Callable[..., Case]) -> None:
    reported = soaked()
    job = reported.observations["soak"]["traffic"]
    assert job["ended"] == "done", job["tail"][-5:]
    windows = job["records"]["windows"]
    assert all(window["unfinished"] == 0 for window in windows)
    assert len({tuple(window["canary"]["token_ids"]) for window in windows}) == 1
    for check in (host_memory.check, engine_internal.check):
        result = judge_one(check, reported)
        assert result.outcome is Outcome.PASS and "requests in" in str(result.reason)


@pytest.mark.engine
def test_memory_and_blocks_that_do_not_come_back_are_found(soaked: Callable[..., Case]) -> None:
    reported = soaked("leaks")
    (grown,) = judge_one(host_memory.check, reported).findings
    assert grown.grade is Grade.OBSERVED and "GiB an hour under steady traffic" in grown.message
    (lost,) = judge_one(engine_internal.check, reported).findings
    assert "loses KV blocks under traffic" in lost.message


def test_a_soak_that_was_too_short_tells_nothing() -> None:
    job = {"ended": "done", "boot": "miniature", "records": {"windows": [{"host": 1, "seconds": 1.0}]}}
    short = replace(Case(), observations={"soak": {"traffic": job}})
    result = judge_one(host_memory.check, short)
    assert result.outcome is Outcome.NOT_CHECKED and "--soak with more minutes" in str(result.reason)
