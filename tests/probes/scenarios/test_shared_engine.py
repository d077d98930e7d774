"""Two threads on one real engine, and an engine used again after an interruption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.engine_shared import check

from rldoctor.api import Case, NotApplicable, Outcome
from rldoctor.api.probes import Basis, Request, Run, Scenario
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.interrupted import interrupted
from rldoctor.probes.scenarios.shared_engine import shared_engine
from tests.live import cases_of_faults
from tests.plans import case as planned


def swift(version: str = "3.4.1", **settings: Any) -> Case:
    """ms-swift that evaluates on the engine that it samples with."""
    reported = {"rollout__async": True, "rollout__evaluates": True, "placement__mode": "async", **settings}
    return planned(framework="ms-swift", versions={"ms-swift": version}, **reported)


def launched(case: Case) -> Scenario:
    """The scenario of this launch, in an environment that has no ms-swift."""

    def runs(_: Case, *given: Any) -> Mapping[str, Run]:
        return shared_engine.runs(case, *given)

    return replace(shared_engine, runs=runs)


def seen(case: Case, *names: str, plan: Case | None = None) -> Case:
    """Only what these scenarios recorded."""
    kept = {name: jobs for name, jobs in case.observations.items() if name in names}
    return replace(case, observations=kept, plan=plan.plan if plan else None)


class TestWhere:
    def test_only_where_a_thread_shares_the_engine(self) -> None:
        (run,) = shared_engine.runs(swift(), Request(), Basis()).values()
        assert run.arguments["turns"] is False and run.engine.replica
        for case in (swift("3.5.0"), swift(rollout__evaluates=False), swift(placement__mode="server"), planned()):
            with pytest.raises(NotApplicable):
                shared_engine.runs(case, Request(), Basis())

    def test_the_launch_as_its_fix_has_it_is_played_in_turns(self) -> None:
        (run,) = shared_engine.runs(swift(rollout__async=False), Request(), Basis()).values()
        assert run.arguments["turns"] is True and run.engine.replica == 0


TURNS = swift(rollout__async=False)
DEAF = "interrupted:deaf"


@pytest.fixture(scope="module")
def interrupted_engines(patient: Path) -> dict[str, Case]:
    """A healthy engine that is used in turns and interrupted, and one that hears no abort."""
    return cases_of_faults(patient, launched(TURNS), interrupted, faults=["", DEAF])


@pytest.mark.engine
def test_in_turns_and_with_the_leftovers_of_an_interruption_aborted_all_is_well(
    interrupted_engines: dict[str, Case],
) -> None:
    case = interrupted_engines[""]
    assert list(case.observations["rollout"]) == ["miniature"]  # one engine for both
    result = judge_one(check, seen(case, "shared_engine", "interrupted", plan=TURNS))
    assert result.outcome is Outcome.PASS, result.findings
    assert "interrupted between steps 8 outputs for 4 prompts" in str(result.reason)
    assert case.observations["interrupted"]["again"]["records"]["afterwards"] is True


@pytest.mark.engine
def test_leftovers_that_cannot_be_aborted(interrupted_engines: dict[str, Case]) -> None:
    (finding,) = judge_one(check, seen(interrupted_engines[DEAF], "interrupted")).findings
    assert "could not be aborted" in finding.message and "8 outputs for 4 prompts" in finding.evidence[0].text
    # What is left would be waited for by each later call: no other run is played on that engine.
    assert "shared_engine" not in interrupted_engines[DEAF].observations
