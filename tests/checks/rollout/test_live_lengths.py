"""What the checks make of sequences at the engine's limit (RLD201, RLD203, RLD204)."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.processes import failure_unrecognised, run_stalled
from rldoctor_checks.rollout import chunked_prefill, length_budget, rotary_length

from rldoctor.api import Case, Check, Finding, Grade, Outcome, RolloutPlan, Setting, Severity
from rldoctor.judge import judge_one
from tests.cases import judged_among_all
from tests.observations import link, packages

LIMIT = 1035
ENGINE = {"engine": "V1", "device": "cpu", "dtype": "bfloat16", "max_model_len": LIMIT}
SIZES = "The size of tensor a (1034) must match the size of tensor b (1035) at non-singleton dimension 2"


def answered(prompt: int, tokens: int, finish: str = "length") -> dict[str, Any]:
    reported = {"token_ids": [5] * tokens, "logprobs": [-2.0] * tokens, "finish_reason": finish}
    return {"prompt_tokens": prompt, "max_tokens": 24, "ended": "answered", **reported}


def refused(prompt: int, *exceptions: dict[str, Any]) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "max_tokens": 1, "ended": "refused", "exceptions": list(exceptions)}


HEALTHY = {
    "short": answered(24, 16),
    "to the limit": answered(LIMIT - 16, 16),
    "last token": answered(LIMIT - 1, 1),
    "full prompt": refused(LIMIT, link("vllm.exceptions.VLLMValidationError", "too long", "vllm/v1/engine/p.py:1")),
    "prompt beyond": refused(LIMIT + 1, link("ValueError", "too long", "vllm/v1/engine/p.py:1")),
    "short again": answered(24, 16),
}


def attempt(name: str, length: int, *exceptions: dict[str, Any], beyond: bool = False) -> dict[str, Any]:
    module = {"name": "model.layers.0.self_attn", "class": "Qwen2Attention"}
    failure = {"ended": "failed", "exceptions": list(exceptions), "module": module}
    return {"name": name, "length": length, "beyond": beyond, "ended": "done", **(failure if exceptions else {})}


def trainer(*attempts: dict[str, Any], end: float = -2.01) -> dict[str, Any]:
    compared = {
        "short": {"engine": [-2.0] * 16, "trainer": [-2.01] * 16},
        "to the limit": {"engine": [-2.0] * 16, "trainer": [end] * 16},
    }
    passes = (attempt("short", 40), attempt("one short of the limit", LIMIT - 1), *attempts)
    return {"architecture": "Qwen2ForCausalLM", "attempts": list(passes), "compared": compared}


def case(ended: str = "done", plan: RolloutPlan | None = None, **records: Any) -> Case:
    reported = {
        "versions": {"vllm": "0.13.0"},
        "engine": ENGINE,
        "miniature": {"weights": "written"},
        "limit": LIMIT,
        "asking": "short again",
        "engine_side": HEALTHY,
        "trainer_side": trainer(attempt("at the limit", LIMIT)),
        **records,
    }
    job = {"ended": ended, "records": reported, "boot": "miniature", "seconds": 2.0, "tail": [], "log": None}
    observations = {"rollout": {"miniature": {"ended": "done"}}, "lengths": {"lengths": job}}
    return Case(packages=packages(vllm="0.13.0"), plan=plan, observations=observations)


def findings(check: Check, reported: Case) -> tuple[Finding, ...]:
    return judge_one(check, reported).findings


def test_an_engine_and_a_trainer_that_hold_to_their_lengths() -> None:
    for check in (length_budget.check, rotary_length.check):
        assert findings(check, case()) == ()
    assert "up to 1035 tokens" in str(judge_one(rotary_length.check, case()).reason)


def test_a_trainer_whose_positions_are_one_short() -> None:
    error = link("RuntimeError", SIZES, "transformers/models/qwen2/modeling_qwen2.py:112")
    reported = case(
        trainer_side=trainer(attempt("at the limit", LIMIT, error), attempt("padded to the limit", LIMIT, error))
    )
    (finding,) = findings(rotary_length.check, reported)
    assert "the trainer's model fails at 1035 tokens in model.layers.0.self_attn (Qwen2Attention)" in finding.message
    assert "1034 against 1035 positions" in finding.message
    assert finding.fixes[0].edits[0].value == LIMIT - 1
    assert finding.evidence[1].line == 112


def test_a_trainer_that_fails_only_beyond_the_engines_limit_or_for_want_of_memory() -> None:
    error = link("RuntimeError", SIZES, "transformers/models/qwen2/modeling_qwen2.py:112")
    memory = link("torch.OutOfMemoryError", "CUDA out of memory.", "torch/nn/functional.py:1")
    for one in (attempt("one beyond", LIMIT + 1, error, beyond=True), attempt("at the limit", LIMIT, memory)):
        assert findings(rotary_length.check, case(trainer_side=trainer(one))) == ()


def test_a_trainer_that_fails_at_any_length_is_not_judged_by_its_lengths() -> None:
    error = link("ImportError", "no flash attention", "transformers/x.py:1")
    side = {"architecture": "X", "attempts": [attempt("short", 40, error)], "compared": {}}
    result = judge_one(rotary_length.check, case(trainer_side=side))
    assert result.findings == () and "fails at 40 tokens already" in str(result.reason)


def test_an_engine_that_fails_at_its_own_limit() -> None:
    error = link("RuntimeError", SIZES, "vllm/model_executor/layers/rotary_embedding/base.py:190")
    reported = case("raised", asking="to the limit", exceptions=[error], trainer_side=None)
    (finding,) = findings(rotary_length.check, reported)
    assert (
        "the engine fails at its own limit of 1035 tokens (request: to the limit): 1034 against 1035" in finding.message
    )
    assert rotary_length.live.explains(reported.observations["lengths"]["lengths"])
    assert findings(length_budget.check, reported) == ()


def test_log_probabilities_that_part_at_the_end_only() -> None:
    (finding,) = findings(rotary_length.check, case(trainer_side=trainer(end=-3.5)))
    assert "differ by 1.5 on average there, by 0.01 at the beginning" in finding.message


def test_answers_that_do_not_end_at_the_limit() -> None:
    for row in (answered(LIMIT - 16, 17), answered(LIMIT - 16, 15), answered(LIMIT - 16, 16, "stop")):
        (finding,) = findings(length_budget.check, case(engine_side={**HEALTHY, "to the limit": row}))
        assert "answers do not end at max_model_len 1035" in finding.message


def test_prompts_beyond_the_limit_that_are_not_refused() -> None:
    engine = link("AssertionError", "", "vllm/v1/worker/gpu_input_batch.py:300")
    for row in (answered(LIMIT + 1, 1), refused(LIMIT + 1, engine)):
        (finding,) = findings(length_budget.check, case(engine_side={**HEALTHY, "prompt beyond": row}))
        assert "is not refused cleanly" in finding.message
    (finding,) = findings(length_budget.check, case(engine_side={**HEALTHY, "full prompt": refused(LIMIT, engine)}))
    assert f"a prompt of {LIMIT} tokens ends in AssertionError" in finding.evidence[0].text
    ignored = {**HEALTHY, "prompt beyond": answered(LIMIT + 1, 0)}  # how V0 refuses some
    assert findings(length_budget.check, case(engine_side=ignored)) == ()


def test_an_engine_that_a_refusal_leaves_in_disorder() -> None:
    dead = refused(24, link("RuntimeError", "engine is dead", "vllm/v1/engine/core.py:1"))
    reported = case("raised", engine_side={**HEALTHY, "short again": dead})
    (finding,) = findings(length_budget.check, reported)
    assert "after that the engine fails with RuntimeError: engine is dead" in finding.evidence[0].text
    assert judged_among_all(failure_unrecognised.check, reported).findings == ()


def test_what_a_full_prompt_does_matters_as_far_as_the_launch_has_such_prompts() -> None:
    dead = {
        **HEALTHY,
        "full prompt": refused(LIMIT, link("AssertionError", "", "vllm/v1/worker/gpu_model_runner.py:1")),
    }
    for prompt, severity in ((1024, Severity.NOTE), (2048, Severity.ERROR), (None, Severity.WARNING)):
        plan = launch(engine__max_model_len=2048, lengths__prompt=prompt) if prompt else None
        found = [
            f for f in findings(length_budget.check, case(plan=plan, engine_side=dead)) if f.grade is Grade.OBSERVED
        ]
        assert [finding.severity for finding in found] == [severity]


def least(ended: str, plan: RolloutPlan | None = None, **records: Any) -> Case:
    found = {
        "versions": {"vllm": "0.9.1"},
        "engine": {**ENGINE, "engine": "V0"},
        "limit": 128,
        "least": 32,
        "prompt_tokens": 104,
        **records,
    }
    job = {"ended": ended, "records": found, "boot": "miniature", "seconds": 2.0, "tail": [], "log": None}
    reported = {"rollout": {"miniature": {"ended": "done"}}, "min_tokens": {"min_tokens": job}}
    return Case(packages=packages(vllm="0.9.1"), plan=plan, observations=reported)


def rows(tokens: int, finish: str = "length") -> list[dict[str, Any]]:
    return [{"prompt_tokens": 104, "token_ids": [1] * tokens, "finish_reason": finish}] * 4


ASSERTED = link("AssertionError", "", "vllm/core/scheduler.py:702")
ASSERTED["frames"][-1]["function"] = "_schedule_running"


def launch(**settings: Any) -> RolloutPlan:
    named = {name.replace("__", "."): Setting(value=value, file="run.sh", line=3) for name, value in settings.items()}
    return RolloutPlan(framework="vLLM", file="run.sh", entry="", settings=named)


def test_min_tokens_beyond_what_the_context_leaves() -> None:
    plan = launch(
        sampling__min_tokens=512,
        lengths__prompt=1024,
        engine__max_model_len=1280,
        engine__max_num_batched_tokens=1280,
    )
    (finding,) = findings(chunked_prefill.check, least("raised", plan, exceptions=[ASSERTED]))
    assert (finding.severity, finding.grade) == (Severity.ERROR, Grade.REPRODUCED)
    assert "end vLLM 0.9.1 V0 on cpu with `assert len(self._async_stopped) == 0`" in finding.message
    assert [{edit.option: edit.value for edit in fix.edits} for fix in finding.fixes] == [
        {"engine.max_model_len": 1536, "engine.max_num_batched_tokens": 1536},
        {"sampling.min_tokens": 256},
        {"engine.enable_chunked_prefill": False},
        {"env.VLLM_USE_V1": "1"},
    ]


def test_without_a_launch_it_is_a_warning() -> None:
    (finding,) = findings(chunked_prefill.check, least("raised", exceptions=[ASSERTED]))
    assert (finding.severity, finding.grade) == (Severity.WARNING, Grade.OBSERVED)


def test_an_engine_that_goes_on_beyond_its_context() -> None:
    (finding,) = findings(chunked_prefill.check, least("done", answers=rows(32)))
    assert "make vLLM 0.9.1 V0 on cpu go on to 136 tokens, beyond its context" in finding.message


def test_an_engine_that_ends_at_its_limit_is_quiet_and_another_failure_is_not_this_one() -> None:
    assert findings(chunked_prefill.check, least("done", answers=rows(24))) == ()
    other = least("raised", exceptions=[link("KeyError", "", "vllm/core/scheduler.py:702")])
    assert judge_one(chunked_prefill.check, other).outcome is Outcome.NOT_CHECKED


def test_an_engine_that_never_ends_what_cannot_reach_its_min_tokens() -> None:
    plan = launch(sampling__min_tokens=512, lengths__prompt=1024, engine__max_model_len=1280)
    reported = least("stalled", plan, versions={"vllm": "0.27.0"}, engine={**ENGINE, "engine": "V1"})
    (finding,) = findings(length_budget.check, reported)
    assert (finding.severity, finding.grade) == (Severity.ERROR, Grade.REPRODUCED)
    assert "min_tokens 32 after a prompt of 104 and max_model_len 128 never end on vLLM 0.27.0 V1" in finding.message
    # One fault, one code.
    assert findings(run_stalled.check, reported) == () and findings(chunked_prefill.check, reported) == ()
    assert judge_one(run_stalled.check, reported).outcome is Outcome.NOT_CHECKED


def test_without_a_launch_an_endless_request_is_a_warning() -> None:
    (finding,) = findings(length_budget.check, least("stalled"))
    assert (finding.severity, finding.grade) == (Severity.WARNING, Grade.OBSERVED)


def test_requests_that_fit_and_stall_are_another_fault() -> None:
    reported = least("stalled", least=16)
    assert judge_one(length_budget.check, reported).outcome is Outcome.NOT_CHECKED
    assert [finding.code for finding in findings(run_stalled.check, reported)] == ["RLD609"]
