"""The ``trainer_code`` scenario: for whom it is played, what the trainer is given, and a real TRL where
``RLDOCTOR_TRL`` names an interpreter that has one beside vLLM."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.sync.logprob_mismatch import check

from rldoctor.api import Case, NotApplicable, Outcome
from rldoctor.api.probes import Request
from rldoctor.catalogue.scenario import Basis
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.trainer_code import trainer_code
from tests.live import scenario_case
from tests.plans import case as planned

BASIS = Basis(model_len=2048)


def case(framework: str = "TRL", **settings: Any) -> Case:
    return planned(framework, versions={"trl": "1.16.0"}, **settings)


def test_the_trainer_is_asked_at_the_launchs_temperature() -> None:
    (run,) = trainer_code.runs(case(sampling__temperature=0.7), Request(), BASIS).values()
    assert run.arguments["temperature"] == 0.7 and run.arguments["trainer"] == "trl_grpo"


def test_the_trainer_gets_the_launchs_own_switches() -> None:
    launch = planned("verl", versions={"verl": "0.9.1"}, batch__packing=False, trainer__logits_chunked=True)
    (run,) = trainer_code.runs(launch, Request(), BASIS).values()
    assert (run.arguments["packing"], run.arguments["fused"]) == (False, True)
    (run,) = trainer_code.runs(case(), Request(), BASIS).values()
    assert (run.arguments["packing"], run.arguments["fused"]) == (None, None)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (case("ms-swift"), "no framework whose trainer can be asked alone"),
        (replace(case(), plan=None), "no framework whose trainer can be asked alone"),
        (planned("TRL", versions={"vllm": "0.32.0"}), "TRL is not installed for this interpreter"),
    ],
    ids=["another framework", "no launch", "no TRL"],
)
def test_it_is_not_played_where_nobody_can_be_asked(other: Case, why: str) -> None:
    with pytest.raises(NotApplicable, match=why):
        trainer_code.runs(other, Request(), BASIS)


@pytest.mark.engine
@pytest.mark.skipif("RLDOCTOR_TRL" not in os.environ, reason="RLDOCTOR_TRL names no interpreter with TRL and vLLM")
def test_a_real_trainer_agrees_with_transformers() -> None:
    plan = case(sampling__temperature=0.7).plan
    seen = scenario_case(Path(os.environ["RLDOCTOR_TRL"]), trainer_code, plan=plan)
    (job,) = seen.observations["trainer_code"].values()
    assert job["records"]["own"]["what"].startswith("trl "), job
    result = judge_one(check, seen)
    assert result.outcome is not Outcome.FINDINGS and "GRPOTrainer" in str(result.reason)
