"""The ``lengths`` scenario: sequences at the limit of a real engine and of the trainer's model."""

from __future__ import annotations

from pathlib import Path

import pytest
from rldoctor_checks.processes import failure_unrecognised
from rldoctor_checks.rollout import length_budget, rotary_length

from rldoctor.api import Case
from rldoctor.judge import judge_one
from rldoctor.probes.rollout import rollout
from rldoctor.probes.scenarios.lengths import lengths
from tests.cases import judged_among_all
from tests.live import cases_of_faults

SHORT_TRAINER = "lengths:short_trainer_table_and_a_sloppy_engine"
SHORT_ENGINE = "lengths:short_engine_table"


@pytest.fixture(scope="module")
def broken(patient: Path) -> dict[str, Case]:
    return cases_of_faults(patient, rollout, lengths, faults=[SHORT_TRAINER, SHORT_ENGINE])


@pytest.mark.engine
def test_the_patient_keeps_to_its_limit(under_traffic: Case) -> None:
    job = under_traffic.observations["lengths"]["lengths"]
    assert job["ended"] == "done", job["tail"][-5:]
    reported = job["records"]
    rows = reported["engine_side"]
    limit = reported["limit"]
    assert [len(rows[name]["token_ids"]) for name in ("short", "to the limit", "last token")] == [16, 16, 1]
    assert rows["to the limit"]["prompt_tokens"] + 16 == rows["last token"]["prompt_tokens"] + 1 == limit
    assert rows["prompt beyond"]["ended"] == "refused" and rows["short again"]["ended"] == "answered"
    side = reported["trainer_side"]
    within = [one for one in side["attempts"] if not one["beyond"]]
    assert {one["length"] for one in within} == {40, limit - 1, limit}
    assert all(one["ended"] == "done" for one in within)
    assert set(side["compared"]) == {"short", "to the limit"}
    for check in (length_budget.check, rotary_length.check, failure_unrecognised.check):
        assert judge_one(check, under_traffic).findings == ()


@pytest.mark.engine
def test_a_trainer_whose_table_is_one_short_and_an_engine_that_cuts(broken: dict[str, Case]) -> None:
    case = broken[SHORT_TRAINER]
    (finding,) = judge_one(rotary_length.check, case).findings
    assert "the trainer's model fails at 2048 tokens in model.layers.0.self_attn" in finding.message
    assert "2048 against 2047 positions; the engine accepts 2048" in finding.message
    assert finding.fixes[0].edits[0].value == 2047
    ended, beyond = judge_one(length_budget.check, case).findings
    assert "answers do not end at max_model_len 2048" in ended.message
    assert "a prompt that fills max_model_len 2048 is not refused cleanly" in beyond.message


@pytest.mark.engine
def test_an_engine_whose_table_is_one_short(broken: dict[str, Case]) -> None:
    case = broken[SHORT_ENGINE]
    found = [one.message for one in judge_one(rotary_length.check, case).findings]
    assert any("has 2046 rows, the engine accepts 2048 positions" in message for message in found)
    assert any("the engine fails at its own limit of 2048 tokens" in message for message in found)
    assert judged_among_all(failure_unrecognised.check, case).findings == ()
