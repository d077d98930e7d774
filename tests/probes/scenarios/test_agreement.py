"""Log-probabilities of engine and trainer, new weights and tokens: what is recorded of a real engine, and that the
checks find what is broken. The three scenarios share their engines, and what is broken shares a boot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout import chat_template, logprobs, vocabulary
from rldoctor_checks.sync import batch_dependent, logprob_mismatch, weight_sync_rejected, weights_stale

from rldoctor.api import Case, Check, NotApplicable, Outcome
from rldoctor.api.facts import ModelFiles
from rldoctor.api.probes import Basis, Request
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.agreement import agreement
from rldoctor.probes.scenarios.tokens import tokens
from rldoctor.probes.scenarios.weights import weights
from tests.live import Played, cases_of_faults, cases_of_one_import, scenario_case
from tests.plans import QWEN2_7B
from tests.plans import case as planned
from tests.probes.faults.table import FAMILIES

CHECKS = (
    logprobs.check,
    logprob_mismatch.check,
    batch_dependent.check,
    weight_sync_rejected.check,
    weights_stale.check,
    chat_template.check,
    vocabulary.check,
)
# A plan that corrects with the log-probabilities of temperature 0.6.
CORRECTING = planned(sampling__temperature=0.6, rollout__importance_correction=True, rollout__engine_logprobs=True).plan


FAULTS = {
    "nothing": "",
    "neighbours": "agreement:neighbours,tokens:begun_twice,tokens:grown,tokens:end_left_out",
    "others": "agreement:other_weights,weights:renamed,tokens:raising_template",
    "stale layer": "agreement:half_heated,weights:stale_layer,tokens:another_end_of_turn",
    "takes anything": "weights:never_reset,weights:unknown_names_ignored,weights:shapes_padded",
    "drifts": "weights:drifting",
    "keeps its weights": "weights:ignored",
}


@pytest.fixture(scope="module")
def healthy(broken: dict[str, Case]) -> Case:
    return broken["nothing"]


@pytest.fixture(scope="module")
def broken(patient: Path) -> dict[str, Case]:
    """What the scenarios see with the faults of each name."""
    seen = cases_of_faults(patient, agreement, weights, tokens, faults=FAULTS.values())
    return {name: seen[faults] for name, faults in FAULTS.items()}


def said(check: Check, case: Case) -> str:
    return "\n".join(finding.message for finding in judge_one(check, case).findings)


def records(case: Case, name: str) -> dict[str, Any]:
    job = case.observations[name][name]
    assert job["ended"] == "done", (job["records"].get("exceptions"), job["tail"][-5:])
    return dict(job["records"])


@pytest.mark.engine
def test_what_is_recorded_of_a_healthy_engine(healthy: Case) -> None:
    reported = records(healthy, "agreement")
    assert reported["trainer"]["dtype"] == reported["engine"]["dtype"] == "float32"
    lengths = [16, 159, 288, 449, 575, 736, 736, 1024, 1024]
    # Behind them those that ask for the sampled tokens' own log-probabilities alone.
    assert [row["prompt_tokens"] for row in reported["plain"]] == [*lengths, 16, 24, 32]
    # One answer is longer, to see what decoding does later on; the last prompt has two completions.
    for row, length in zip(reported["plain"], (128, 16, 8, 8, *[16] * 8), strict=True):
        assert len(row["engine"]) == len(row["prefill"]) == len(row["trainer"]) == length
    assert set(reported["heated"]["rows"][0]["trainer"]) == {"1.0", "0.6"}
    reported = records(healthy, "weights")
    assert reported["way"]["name"] and reported["change"]["moved"] > 0.5
    assert {"model.layers.0", "model.layers.1", "lm_head.weight"} <= reported["sensitivity"].keys()
    assert all(refusal["exceptions"] for refusal in reported["refusals"].values())
    assert reported["restored"]["end"] == pytest.approx(reported["restored"]["start"], abs=0.05)
    reported = records(healthy, "tokens")
    assert reported["template"]["decoded"] == reported["template"]["text"]
    assert reported["ends"]["eos"]["finish_reason"] == "stop" and reported["turn"]["token"] == "<|im_end|>"
    assert reported["again"]["same"] == reported["again"]["texts"]


@pytest.mark.engine
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_healthy_engine_is_quiet(healthy: Case, check: Check) -> None:
    result = judge_one(check, healthy)
    assert result.outcome is Outcome.PASS, [finding.message for finding in result.findings]


@pytest.mark.engine
def test_the_healthy_engine_under_a_plan_that_takes_its_numbers_for_others(healthy: Case) -> None:
    reported = judge_one(logprobs.check, Case(**{**vars(healthy), "plan": CORRECTING}))
    assert any("for those at temperature 0.6" in finding.message for finding in reported.findings)


@pytest.mark.engine
def test_requests_that_reach_into_each_other_and_tokens_that_do_not_fit(broken: dict[str, Case]) -> None:
    case = broken["neighbours"]
    assert "answered otherwise among 15 others" in said(batch_dependent.check, case)
    assert said(logprob_mismatch.check, case) == ""
    assert "begins the sequence twice" in said(chat_template.check, case)
    assert "out of its completions" in said(chat_template.check, case)
    assert "the embedding 261 rows" in said(vocabulary.check, case)


@pytest.mark.engine
def test_other_weights_refused_names_and_a_template_that_raises(broken: dict[str, Case]) -> None:
    case = broken["others"]
    assert "and transformers give the same tokens other log-probabilities" in said(logprob_mismatch.check, case)
    assert "refuses the trainer's weights" in said(weight_sync_rejected.check, case)
    assert "the chat template raises" in said(chat_template.check, case)


@pytest.mark.engine
def test_another_temperature_and_a_stale_layer(broken: dict[str, Case]) -> None:
    case = broken["stale layer"]
    assert "neither those before temperature nor those after it" in said(logprobs.check, case)
    assert "its model.layers.1 is still the old one" in said(weights_stale.check, case)
    assert "does not stop at the template's end of turn" in said(chat_template.check, case)


@pytest.mark.engine
def test_an_engine_that_takes_anything_and_forgets_nothing(broken: dict[str, Case]) -> None:
    case = broken["takes anything"]
    assert "prefix cache" in said(weights_stale.check, case)
    reported = said(weight_sync_rejected.check, case)
    assert "a wrong name" in reported and "a wrong shape" in reported


@pytest.mark.engine
def test_an_engine_that_weights_change_a_little_each_time(broken: dict[str, Case]) -> None:
    assert "the same weights once more" in said(weights_stale.check, broken["drifts"])


@pytest.fixture(scope="module")
def others(patient: Path) -> dict[str, Case]:
    """What the scenarios see of healthy engines of other models."""
    tied = ModelFiles(path="model", config={**QWEN2_7B, "tie_word_embeddings": True})
    experts = ModelFiles(path="model", config=FAMILIES["experts"])
    engines = {
        "a tied head": Played((weights,), model=tied),
        "experts": Played((weights,), model=experts),
        "experts in bfloat16": Played((agreement,), model=experts, engine={"dtype": "bfloat16"}),
    }
    return cases_of_one_import(patient, engines)


@pytest.mark.engine
def test_a_head_that_is_tied_to_the_embeddings_follows_them(others: dict[str, Case]) -> None:
    case = others["a tied head"]
    assert "lm_head.weight" not in records(case, "weights")["sensitivity"]
    assert said(weights_stale.check, case) == ""


@pytest.mark.engine
def test_experts_are_chosen_alike_in_bfloat16(others: dict[str, Case]) -> None:
    assert judge_one(logprob_mismatch.check, others["experts in bfloat16"]).outcome is Outcome.PASS


@pytest.mark.engine
def test_experts_that_this_build_cannot_load_again_are_not_judged(others: dict[str, Case]) -> None:
    case = others["experts"]
    way = records(case, "weights")["way"]
    assert way["name"] is None and "computes experts wrongly once they were loaded again" in way["why"]
    for check in (weights_stale.check, weight_sync_rejected.check):
        result = judge_one(check, case)
        assert result.outcome is not Outcome.PASS and result.findings == ()


@pytest.mark.engine
def test_an_engine_that_keeps_its_weights(broken: dict[str, Case]) -> None:
    assert "it still samples with the old weights" in said(weights_stale.check, broken["keeps its weights"])


@pytest.mark.engine
@pytest.mark.v0
def test_a_healthy_v0_engine_is_quiet(v0_patient: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_V1", "0")
    case = scenario_case(v0_patient, agreement, weights, tokens)
    assert not [finding.message for check in CHECKS for finding in judge_one(check, case).findings]
    assert records(case, "weights")["way"]["name"] == "model.load_weights, all at once"


def arguments(case: Case, **basis: Any) -> dict[str, Any]:
    return dict(agreement.runs(case, Request(), Basis(**basis))["agreement"].arguments)


def test_the_temperatures_are_the_launchs() -> None:
    assert arguments(planned())["temperature"] == 0.6
    asked = arguments(planned(sampling__temperature=0.8, trainer__temperature=1.0))
    assert (asked["temperature"], asked["assumed"]) == (0.8, [0.8, 1.0])


def test_lengths_stay_within_the_engine() -> None:
    asked = arguments(planned(), model_len=40, prompt=39, response=39)
    assert asked["prompt"] + asked["response"] + 1 <= 40


def test_how_the_framework_sends_its_weights() -> None:
    for framework, release, one_by_one, as_saved in (
        ("TRL", {"trl": "1.0.0"}, True, False),
        ("SkyRL", {"skyrl": "0.4.0"}, False, False),
        ("verl", {"verl": "0.8.0"}, False, False),
        ("verl", {"verl": "0.9.0"}, False, True),
        ("NeMo-RL", {"nemo-rl": "0.4.0"}, False, True),
    ):
        run = weights.runs(planned(framework=framework, versions=release), Request(), Basis())["weights"]
        assert (run.arguments["one_by_one"], run.arguments["as_saved"]) == (one_by_one, as_saved), framework


def test_a_real_models_weights_are_left_alone() -> None:
    with pytest.raises(NotApplicable):
        weights.runs(planned(), Request(model=Path("model")), Basis())
