"""What the checks make of log-probabilities of the same tokens: RLD213, RLD403 and RLD405."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.rollout import logprobs
from rldoctor_checks.sync import batch_dependent, logprob_mismatch

from rldoctor.api import Case, Check, Finding, Grade, Outcome, Severity
from rldoctor.judge import judge_one
from tests.observations import scenario_case
from tests.plans import case as planned

TOKENS = 16
TRAINER = {"class": "Qwen2ForCausalLM", "dtype": "bfloat16", "device": "cuda:0", "attention": "sdpa"}
CORRECTED = {"rollout__importance_correction": True, "rollout__engine_logprobs": True}


def row(engine: float = -2.0, prefill: float = -2.0, trainer: float = -2.01) -> dict[str, Any]:
    reported = {"engine": [engine] * TOKENS, "prefill": [prefill] * TOKENS, "trainer": [trainer] * TOKENS}
    return {"request": "plain 0", "prompt_tokens": 32, "token_ids": list(range(TOKENS)), **reported}


def heated(engine: float, temperature: float = 0.6) -> dict[str, Any]:
    """At temperature 1 the trainer tells -2, at 0.6 it tells -1.4."""
    trainer = {"1.0": [-2.0] * TOKENS, "0.6": [-1.4] * TOKENS}
    return {"temperature": temperature, "rows": [{"engine": [engine] * TOKENS, "trainer": trainer}]}


def answer(tokens: list[int], logprob: float = -0.5, margin: float = 1.0, **more: float) -> dict[str, Any]:
    count = len(tokens)
    told = {"logprobs": logprob, "margins": margin, **more}
    return {"prompt_tokens": 40, "token_ids": tokens, **{name: [value] * count for name, value in told.items()}}


def reported(settings: dict[str, Any] | None = None, **records: Any) -> Case:
    healthy: dict[str, Any] = {
        "trainer": TRAINER,
        "plain": [row()],
        "heated": heated(-2.0),
        "greedy": {"alone": answer([5, 6, 7]), "batched": answer([5, 6, 7]), "batch": 16},
        "read": {"parameters": ["temperature"], "rows": [{"engine": [-2.0] * TOKENS, "trainer": [-2.01] * TOKENS}]},
    }
    plan = planned(**settings).plan if settings is not None else None
    return scenario_case("agreement", plan=plan, **{**healthy, **records})


def findings(check: Check, case: Case) -> list[Finding]:
    return list(judge_one(check, case).findings)


def test_what_agrees_passes_and_says_how_far() -> None:
    case = reported({"lengths__prompt": 512, "lengths__response": 1536})
    result = judge_one(logprob_mismatch.check, case)
    assert result.outcome is Outcome.PASS
    assert "importance ratios 0.99 to 0.99 over 16 tokens, sequences up to 48 tokens, the run plans 2048" in str(
        result.reason
    )
    assert not findings(logprobs.check, case) and not findings(batch_dependent.check, case)


def test_a_row_of_a_larger_batch_alone() -> None:
    crowd = [{**row(), "request": f"crowd {number}"} for number in range(48)]
    assert not findings(batch_dependent.check, reported(crowd=crowd))
    crowd[-1] = {**row(engine=-4.0), "request": "crowd 47"}
    (finding,) = findings(batch_dependent.check, reported(crowd=crowd))
    assert "1 of 48 requests of one batch" in finding.message and finding.evidence[1].text == "requests: crowd 47"
    # What is wrong in smaller batches already is no matter of this one.
    assert not findings(batch_dependent.check, reported(crowd=crowd, plain=[row(engine=-2.4)]))
    assert not findings(batch_dependent.check, reported(crowd=crowd, cached=[row(engine=-2.4)]))


def test_an_engine_that_computes_otherwise_than_transformers() -> None:
    (finding,) = findings(logprob_mismatch.check, reported(plain=[row(trainer=-2.3)]))
    assert "0.3 apart on average" in finding.message and finding.grade is Grade.OBSERVED
    assert "sdpa" in finding.evidence[0].text


def test_an_engine_whose_decoding_is_at_fault() -> None:
    (finding,) = findings(logprob_mismatch.check, reported(plain=[row(engine=-2.4)]))
    assert "tokens that it decodes" in finding.message


def test_an_engine_that_is_wrong_in_prompts_already_is_one_finding() -> None:
    assert len(findings(logprob_mismatch.check, reported(plain=[row(engine=-2.4, prefill=-2.8)]))) == 1


def test_an_engine_that_is_wrong_in_some_prompts_alone() -> None:
    """What it samples is right, and what one prompt tells is right as well."""
    prompt = {"token_ids": [0, 1, 2], "engine": [-2.0, -2.0], "trainer": [-2.0, -2.0]}
    (finding,) = findings(logprob_mismatch.check, reported(plain=[row(prefill=-2.8)], vocabulary=prompt))
    assert "tokens that it decodes other log-probabilities than the same tokens in a prompt" in finding.message


def test_an_engine_whose_prompts_are_another_ones_is_one_finding() -> None:
    """Whatever is asked beside them: prompts at another temperature are wrong for the same reason."""
    prompt = {"token_ids": [0, 1, 2], "engine": [-3.0, -4.0], "trainer": [-2.0, -2.0]}
    read = {"parameters": ["temperature"], "rows": [{"engine": [-3.0], "trainer": [-2.0]}]}
    engine = {"dtype": "float32", "device": "cpu", "logprobs_mode": "raw_logprobs"}
    case = reported(plain=[row(prefill=-2.8, trainer=-2.0)], vocabulary=prompt, read=read, engine=engine)
    (finding,) = findings(logprob_mismatch.check, case)
    assert "differ on those of a prompt, on 2 of 2" in finding.message
    assert not findings(logprobs.check, case)


def test_a_pass_says_the_smallest_defect_that_would_have_shown() -> None:
    # In bfloat16 the mean of miniatures has room for 0.12.
    shown = {"a.weight": {"mean": 0.006, "largest": 0.01}, "b.weight": {"mean": 0.003, "largest": 0.01}}
    flat = {"b.bias": {"mean": 0.0, "largest": 0.0}}
    seen = judge_one(logprob_mismatch.check, reported(power={"by": 0.005, "shown": {**shown, **flat}}))
    assert seen.outcome is Outcome.PASS
    assert "a tensor off by 0.2 of its values would show, each of 3 (but for b.bias)" in str(seen.reason)
    blind = judge_one(logprob_mismatch.check, reported(power={"by": 0.005, "shown": flat}))
    assert blind.outcome is Outcome.NOT_CHECKED and "tells too little" in str(blind.reason)


def test_a_prompt_that_is_continued_from_another_ones_cache() -> None:
    (finding,) = findings(logprob_mismatch.check, reported(cached=[row(), row(engine=-2.6)]))
    assert "its prefix cache is at fault" in finding.message
    assert not findings(logprob_mismatch.check, reported(cached=[row()]))
    # Where new prompts differ, too, that is the finding.
    (finding,) = findings(logprob_mismatch.check, reported(cached=[row(engine=-2.6)], plain=[row(-2.6, -2.6)]))
    assert "prefix cache" not in finding.message


def test_an_eight_bit_cache_of_the_launch_is_what_the_fix_changes() -> None:
    case = reported({"engine__kv_cache_dtype": "fp8"}, plain=[row(trainer=-2.3)], engine={"kv_cache_dtype": "fp8"})
    (finding,) = findings(logprob_mismatch.check, case)
    assert finding.grade is Grade.REPRODUCED
    assert finding.fixes[0].edits[0].option == "engine.kv_cache_dtype"
    assert any(evidence.line == 7 for evidence in finding.evidence)


def test_without_a_trainer_the_engine_is_compared_with_itself_which_is_no_pass() -> None:
    only = {name: value for name, value in row().items() if name != "trainer"}
    result = judge_one(
        logprob_mismatch.check, reported(trainer=None, plain=[only], unread={"trainer": "no such model"})
    )
    assert result.outcome is Outcome.NOT_CHECKED
    assert str(result.reason).startswith("no such model; ") and "decode and prefill" in str(result.reason)


def test_an_engine_that_tells_logits_is_not_compared() -> None:
    case = reported(plain=[row(engine=5.0)], engine={"logprobs_mode": "raw_logits"})
    assert not findings(logprob_mismatch.check, case)


@pytest.mark.parametrize(("engine", "said"), [(-2.0, "before temperature"), (-1.4, "after temperature")])
def test_which_log_probabilities_the_engine_tells(engine: float, said: str) -> None:
    result = judge_one(logprobs.check, reported(heated=heated(engine)))
    assert result.outcome is Outcome.PASS and said in str(result.reason)


def test_a_loss_that_takes_raw_log_probabilities_for_heated_ones() -> None:
    case = reported({"sampling__temperature": 0.6, "trainer__temperature": 0.6, **CORRECTED}, heated=heated(-2.0))
    live = [finding for finding in findings(logprobs.check, case) if finding.grade is Grade.REPRODUCED]
    (finding,) = live
    assert finding.severity is Severity.WARNING and "for those at temperature 0.6" in finding.message
    assert finding.fixes[0].edits[0].value == "processed_logprobs"


@pytest.mark.parametrize(
    ("settings", "engine"),
    [
        ({"sampling__temperature": 0.6, "trainer__temperature": 0.6, **CORRECTED}, -1.4),
        ({"sampling__temperature": 0.6, "trainer__temperature": 1.0, **CORRECTED}, -2.0),
        ({"sampling__temperature": 0.6, "rollout__importance_correction": False}, -2.0),
        ({"sampling__temperature": 1.0, **CORRECTED}, -2.0),
    ],
    ids=["processed", "trained at 1", "not corrected", "sampled at 1"],
)
def test_a_loss_that_takes_them_for_what_they_are(settings: dict[str, Any], engine: float) -> None:
    case = reported(settings, heated=heated(engine), engine={"logprobs_mode": "x"})
    assert not [finding for finding in findings(logprobs.check, case) if finding.grade is Grade.REPRODUCED]


def test_log_probabilities_of_no_temperature() -> None:
    (finding,) = findings(logprobs.check, reported(heated=heated(-1.7)))
    assert "neither those before temperature nor those after it" in finding.message
    # Where they differ at temperature 1 already, that is the finding.
    assert not findings(logprobs.check, reported(heated=heated(-1.7), plain=[row(trainer=-3.0)]))
    # What comes from another one's cache is heated as wrongly.
    assert not findings(logprobs.check, reported(heated=heated(-1.7), cached=[row(trainer=-3.0)]))
    assert findings(logprobs.check, reported(heated=heated(-1.7), cached=[row()]))


def test_raw_log_probabilities_are_the_models_whatever_is_asked_for() -> None:
    def steered(engine: float) -> dict[str, Any]:
        rows = [{"engine": [engine] * TOKENS, "trainer": [-2.0] * TOKENS}]
        return {"parameters": ["logit_bias", "repetition_penalty"], "rows": rows}

    raw = {"logprobs_mode": "raw_logprobs"}
    (finding,) = findings(logprobs.check, reported(engine=raw, steered=steered(-0.5)))
    assert "tells other ones of sampled tokens beside logit_bias and repetition_penalty" in finding.message
    assert not findings(logprobs.check, reported(engine=raw, steered=steered(-2.0)))
    (finding,) = findings(logprobs.check, reported(engine=raw, read={**steered(-0.5), "parameters": ["temperature"]}))
    assert "tells other ones of prompts beside temperature" in finding.message
    # In another mode, and in releases without one, they are those that the token was drawn with.
    for mode in ({"logprobs_mode": "processed_logprobs"}, {}):
        assert not findings(logprobs.check, reported(engine=mode, steered=steered(-0.5)))


def test_prompt_tokens_without_their_log_probability() -> None:
    some = {**row(), "prefill": [-2.0] * (TOKENS - 1) + [None]}
    (finding,) = findings(logprobs.check, reported(plain=[some]))
    assert "1 tokens of prompts" in finding.message
    # An engine that tells none of them is not at fault.
    assert not findings(logprobs.check, reported(plain=[{**row(), "prefill": [None] * TOKENS}]))


def test_a_request_that_others_reach_into() -> None:
    apart = {"alone": answer([5, 6, 7]), "batched": answer([5, 6, 7], logprob=-0.9), "batch": 16}
    (finding,) = findings(batch_dependent.check, reported(greedy=apart))
    assert "by more than rounding" in finding.message
    other = {"alone": answer([5, 6, 7], margin=3.0), "batched": answer([5, 9, 7], margin=3.0), "batch": 16}
    (finding,) = findings(batch_dependent.check, reported(greedy=other))
    assert "another token after 1 equal ones" in finding.evidence[0].text


def test_what_the_batch_decides_is_said_once() -> None:
    batch = {"alone": answer([5, 6, 7], trainer=-0.5), "batched": answer([5, 6, 7], logprob=-0.9), "batch": 16}
    case = reported(greedy=batch, plain=[row(engine=-2.6)])
    assert findings(batch_dependent.check, case) and not findings(logprob_mismatch.check, case)
    wrong = {**batch, "alone": answer([5, 6, 7], trainer=-1.5)}
    case = reported(greedy=wrong, plain=[row(engine=-2.6)])
    assert not findings(batch_dependent.check, case) and findings(logprob_mismatch.check, case)


def test_rounding_is_quiet_unless_invariance_is_asked_for() -> None:
    swapped = {"alone": answer([5, 6], margin=0.01), "batched": answer([5, 9], logprob=-0.51, margin=0.0), "batch": 16}
    assert judge_one(batch_dependent.check, reported(greedy=swapped)).outcome is Outcome.PASS
    asked = {"env__VLLM_BATCH_INVARIANT": "1"}
    live = [f for f in findings(batch_dependent.check, reported(asked, greedy=swapped)) if f.grade is Grade.REPRODUCED]
    assert live and live[0].severity is Severity.ERROR
    on_cpu = reported(asked, greedy=swapped, engine={"device": "cpu"})
    assert not [f for f in findings(batch_dependent.check, on_cpu) if f.grade is Grade.REPRODUCED]


@pytest.mark.parametrize("check", [logprobs.check, logprob_mismatch.check, batch_dependent.check])
def test_an_engine_that_did_not_come_up_is_no_pass(check: Check) -> None:
    case = scenario_case("agreement", ended="not-run", job={"records": {"stage": "boot"}})
    assert judge_one(check, case).outcome is Outcome.NOT_CHECKED


@pytest.mark.parametrize(("own", "found"), [(-2.0, False), (-2.4, True)], ids=["the same", "another temperature"])
def test_the_trainers_own_function_against_transformers(own: float, found: bool) -> None:
    rows = [{"token_ids": [1, 2], "transformers": [-2.0, -2.0], "own": [own, own]}]
    told = {"title": "TRL", "temperature": 0.6, "what": "trl 1.16.0, GRPOTrainer.f"}
    result = judge_one(logprob_mismatch.check, scenario_case("trainer_code", rows=rows, own=told))
    assert bool(result.findings) is found
    if found:
        assert "trl 1.16.0, GRPOTrainer.f gives sampled tokens other" in result.findings[0].message
    else:
        assert "at temperature 0.6 and transformers: mean 0" in str(result.reason)


def test_a_trainer_that_could_not_be_asked_is_no_pass() -> None:
    case = scenario_case("trainer_code", unread={"rows": "TRL's own function could not be asked: no module"})
    result = judge_one(logprob_mismatch.check, case)
    assert result.outcome is Outcome.NOT_CHECKED and "could not be asked: no module" in str(result.reason)
