"""The ``trainer_code`` scenario: for whom it is played, what the trainer is given, and a real TRL where
``RLDOCTOR_TRL`` names an interpreter that has one beside vLLM."""

from __future__ import annotations

import os
import sys
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
from tests.live import CHILDREN, scenario_case
from tests.plans import case as planned

sys.path.insert(0, str(CHILDREN))

from trainers.trl_grpo import batch

BASIS = Basis(model_len=2048)


def case(framework: str = "TRL", **settings: Any) -> Case:
    return planned(framework, versions={"trl": "1.16.0"}, **settings)


def test_the_trainer_is_asked_at_the_launchs_temperature() -> None:
    (run,) = trainer_code.runs(case(sampling__temperature=0.7), Request(), BASIS).values()
    assert run.arguments["temperature"] == 0.7 and Path(str(run.arguments["program"])).is_file()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (case("verl"), "no framework whose trainer can be asked alone"),
        (replace(case(), plan=None), "no framework whose trainer can be asked alone"),
        (planned("TRL", versions={"vllm": "0.32.0"}), "TRL is not installed for this interpreter"),
    ],
    ids=["another framework", "no launch", "no TRL"],
)
def test_it_is_not_played_where_nobody_can_be_asked(other: Case, why: str) -> None:
    with pytest.raises(NotApplicable, match=why):
        trainer_code.runs(other, Request(), BASIS)


def test_prompts_are_padded_on_the_left_and_completions_on_the_right() -> None:
    ids, mask = batch([[1, 2, 3], [4]], [[5], [6, 7]], pad=0)
    assert ids == [[1, 2, 3, 5, 0], [0, 0, 4, 6, 7]]
    assert mask == [[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]


@pytest.mark.engine
@pytest.mark.skipif("RLDOCTOR_TRL" not in os.environ, reason="RLDOCTOR_TRL names no interpreter with TRL and vLLM")
def test_a_real_trainer_agrees_with_transformers() -> None:
    plan = case(sampling__temperature=0.7).plan
    seen = scenario_case(Path(os.environ["RLDOCTOR_TRL"]), trainer_code, plan=plan)
    (job,) = seen.observations["trainer_code"].values()
    assert job["records"]["own"]["what"].startswith("trl "), job
    result = judge_one(check, seen)
    assert result.outcome is not Outcome.FINDINGS and "GRPOTrainer" in str(result.reason)
