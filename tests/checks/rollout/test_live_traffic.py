"""What the checks make of traffic on two engines, one of which prefills in chunks (RLD201, RLD202, RLD220, RLD404)."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.rollout import chunked_prefill, engine_internal, token_budget
from rldoctor_checks.sync import logprob_mismatch, outputs_corrupt

from rldoctor.api import Case, Check, Finding, Grade, Outcome, RolloutPlan, Setting
from rldoctor.judge import judge_one
from tests.observations import link, packages

ENGINE = {
    "engine": "V1",
    "device": "cuda",
    "dtype": "bfloat16",
    "max_model_len": 2048,
    "max_num_batched_tokens": 512,
    "enable_chunked_prefill": True,
    "enable_prefix_caching": True,
    "async_scheduling": True,
}
BY_ARRIVAL = {**ENGINE, "scheduling_policy": "fcfs"}
WHOLE = {**ENGINE, "enable_chunked_prefill": False, "max_num_batched_tokens": 2048}


def answer(tokens: list[int], prompt: int = 1024, logprob: Any = -2.0, gap: float = 1.0, **more: Any) -> dict[str, Any]:
    """An answer whose runner-up, token 999, is ``gap`` nats less likely."""
    return {
        "prompt_tokens": prompt,
        "token_ids": tokens,
        "logprobs": [logprob] * len(tokens),
        "tops": [[[token, logprob], [999, logprob - gap]] for token in tokens] if isinstance(logprob, float) else [],
        "finish_reason": "length" if tokens else None,
        "aborted": False,
        "aborted_at": None,
        "wrong_prompt": False,
        **more,
    }


def job(answers: dict[str, Any], engine: dict[str, Any] = ENGINE, ended: str = "done", **more: Any) -> dict[str, Any]:
    trace = {"answers": answers, "strangers": [], "twice": [], "steps": 60, "preemptions": 5, **more}
    records = {
        "versions": {"vllm": "0.13.0"},
        "engine": engine,
        "miniature": {"weights": "written"},
        "trace": trace,
        "reach": {"longest": 1056, "preemptions": 5, "requests": len(answers)},
        "stage": "chunked_prefill: on",
    }
    return {"ended": ended, "records": records, "boot": "miniature", "seconds": 4.0, "tail": [], "log": None}


def case(on: dict[str, Any] | None, off: dict[str, Any] | None, **settings: Any) -> Case:
    named = {name.replace("__", "."): Setting(value=value) for name, value in settings.items()}
    plan = RolloutPlan(framework="vLLM", file="run.sh", entry="", settings=named) if settings else None
    jobs = {name: one for name, one in (("on", on), ("off", off)) if one is not None}
    return Case(packages=packages(vllm="0.13.0"), plan=plan, observations={"chunked_prefill": jobs, "rollout": {}})


def findings(check: Check, reported: Case) -> tuple[Finding, ...]:
    return judge_one(check, reported).findings


def pair(on: dict[str, Any], off: dict[str, Any], **settings: Any) -> Case:
    return case(job(on), job(off, WHOLE), **settings)


SAME = {"request 0": answer([1, 2, 3]), "request 1": answer([4, 5, 6], 256)}


def test_equal_answers_pass_and_say_how_far_they_reached() -> None:
    result = judge_one(chunked_prefill.check, pair(SAME, SAME))
    assert result.findings == ()
    assert "2 of 2 greedy answers equal" in str(result.reason) and "5 preemptions" in str(result.reason)


def test_other_answers_in_a_near_tie_are_rounding() -> None:
    on = {"request 0": answer([1, 2, 7], gap=0.3), "request 1": SAME["request 1"]}
    off = {"request 0": answer([1, 2, 8], gap=0.3), "request 1": SAME["request 1"]}
    assert findings(chunked_prefill.check, pair(on, off)) == ()


def test_other_answers_that_both_engines_are_sure_of() -> None:
    on = {"request 0": answer([1, 2, 7], gap=3.0), "request 1": SAME["request 1"]}
    off = {"request 0": answer([1, 2, 8], gap=3.0), "request 1": SAME["request 1"]}
    (finding,) = findings(chunked_prefill.check, pair(on, off))
    assert finding.grade is Grade.OBSERVED
    assert "1 of 2 greedy answers become others, and not in near ties" in finding.message
    assert "equal for 2 tokens, then 7 and 8" in finding.evidence[0].text


def test_the_same_tokens_with_other_probabilities() -> None:
    off = {"request 0": answer([1, 2, 3], logprob=-2.4), "request 1": answer([4, 5, 6], 256, logprob=-2.4)}
    reported = pair(SAME, off, engine__enable_chunked_prefill=True, engine__max_model_len=8192)
    (finding,) = findings(chunked_prefill.check, reported)
    assert finding.grade is Grade.REPRODUCED
    assert "differ by 0.4 on average" in finding.message
    assert [edit.option for edit in finding.fixes[0].edits] == ["engine.enable_chunked_prefill"]


def beside(on: dict[str, Any], off: dict[str, Any], trainer: float) -> Case:
    """The same traffic, and for every token the same log-probability of the trainer's."""
    jobs = job(on), job(off, WHOLE)
    for one in jobs:
        answers = one["records"]["trace"]["answers"]
        one["records"]["trainer"] = {name: [trainer] * len(a["token_ids"]) for name, a in answers.items()}
    return case(*jobs)


def test_what_both_engines_answer_otherwise_than_the_trainer_is_not_the_chunks() -> None:
    off = {"request 0": answer([1, 2, 3], logprob=-2.4), "request 1": answer([4, 5, 6], 256, logprob=-2.4)}
    both = beside(SAME, off, trainer=-3.0)
    assert findings(chunked_prefill.check, both) == ()
    (finding,) = findings(logprob_mismatch.check, both)
    assert "gives 2 of 2 requests other log-probabilities than transformers" in finding.message
    one = beside(SAME, off, trainer=-2.0)
    assert len(findings(chunked_prefill.check, one)) == 1 and findings(logprob_mismatch.check, one) == ()
    passed = judge_one(logprob_mismatch.check, beside(SAME, SAME, trainer=-2.0))
    assert passed.outcome is Outcome.PASS and "2 requests under pressure, 5 preemptions" in str(passed.reason)


def test_an_answer_of_another_length_than_asked_for_is_named() -> None:
    def played(length: int | None, **more: Any) -> Case:
        return case(job({"request 0": answer([1, 2, 3], length=length, **more)}), None)

    (finding,) = findings(engine_internal.check, played(2))
    assert finding.code == "RLD220" and "request 0: 3 tokens, 2 were asked for" in finding.evidence[0].text
    # As asked for; one that may end before; one that was aborted.
    healthy = (played(3), played(None), played(9, aborted=True, aborted_at=2))
    assert [findings(engine_internal.check, one) for one in healthy] == [()] * 3


def test_traffic_that_preempts_nobody_says_nothing_of_preemption() -> None:
    calm = beside(SAME, SAME, trainer=-2.0)
    for one in calm.observations["chunked_prefill"].values():
        one["records"]["trace"]["preemptions"] = one["records"]["reach"]["preemptions"] = 0
    result = judge_one(logprob_mismatch.check, calm)
    assert result.outcome is Outcome.NOT_CHECKED and "what comes back to it was not reached" in str(result.reason)
    assert "no preemption was reached" in str(judge_one(chunked_prefill.check, calm).reason)


def test_the_budget_goes_with_it_where_the_launch_gives_one_that_is_too_small() -> None:
    off = {"request 0": answer([1, 2, 3], logprob=-2.4), "request 1": answer([4, 5, 6], 256, logprob=-2.4)}
    reported = pair(SAME, off, engine__max_num_batched_tokens=2048, engine__max_model_len=8192)
    edits = {edit.option: edit.value for edit in findings(chunked_prefill.check, reported)[0].fixes[0].edits}
    assert edits == {"engine.enable_chunked_prefill": False, "engine.max_num_batched_tokens": 8192}


def test_float32_leaves_less_room_for_noise() -> None:
    off = {"request 0": answer([1, 2, 3], logprob=-2.03), "request 1": answer([4, 5, 6], 256, logprob=-2.03)}
    assert findings(chunked_prefill.check, pair(SAME, off)) == ()
    single = {"dtype": "float32"}
    reported = case(job(SAME, {**ENGINE, **single}), job(off, {**WHOLE, **single}))
    assert len(findings(chunked_prefill.check, reported)) == 1


def test_what_was_not_comparable_is_not_checked() -> None:
    stalled = job(SAME, ended="stalled")
    for reported in (case(stalled, job(SAME, WHOLE)), pair(SAME, {"request 0": answer([1, 2, 3], 512)})):
        assert judge_one(chunked_prefill.check, reported).outcome is Outcome.NOT_CHECKED
    assert findings(chunked_prefill.check, case(None, job(SAME, WHOLE))) == ()  # a launch that does not chunk


def test_numbers_that_are_none() -> None:
    reported = pair({**SAME, "request 1": answer([4, 5], 256, logprob="nan")}, SAME)
    (finding,) = findings(outputs_corrupt.check, reported)
    assert "chunked prefill on" in finding.message
    assert finding.evidence[0].text == "request 1: nan at token 0 after 256 tokens"
    assert findings(chunked_prefill.check, reported) == ()


def test_prompts_that_no_step_has_room_for() -> None:
    starved = {**WHOLE, "max_num_batched_tokens": 512}
    reported = case(None, job({"request 0": answer([]), "request 1": SAME["request 1"]}, starved))
    (finding,) = findings(token_budget.check, reported)
    assert "1 prompts of up to 1024 tokens are never scheduled" in finding.message
    assert finding.fixes[0].edits[0].value == 2048
    assert findings(engine_internal.check, reported) == ()


def test_requests_that_are_lost_mixed_up_doubled_or_not_aborted() -> None:
    answers = {
        "request 0": answer([]),
        "request 1": answer([1, 2], finish_reason=None),
        "request 2": answer([1, 2], wrong_prompt=True),
        "request 3": answer([1] * 20, aborted=True, aborted_at=4),
        "request 4": answer([1] * 6, aborted=True, aborted_at=4, finish_reason=None),
        "request 5": answer([1, 2, 3]),
    }
    reported = case(job(answers, strangers=["request 99"], twice=["request 5"]), None)
    (finding,) = findings(engine_internal.check, reported)
    assert "6 faults in 6 requests" in finding.message
    assert [fix.title for fix in finding.fixes[:2]] == [
        "switch asynchronous scheduling off",
        "switch prefix caching off",
    ]
    assert findings(token_budget.check, reported) == ()


def failed(type_: str, place: str, **more: Any) -> Case:
    broken = job(SAME, ended="raised")
    broken["records"]["exceptions"] = [link(type_, "", "vllm/entrypoints/llm.py:10", place)]
    return case({**broken, **more}, None)


def test_an_assertion_in_the_engines_own_bookkeeping() -> None:
    for type_, place in (
        ("AssertionError", "vllm/v1/core/sched/scheduler.py:400"),
        ("KeyError", "vllm/v1/worker/gpu_model_runner.py:800"),
        ("IndexError", "vllm/core/block_manager.py:90"),
    ):
        (finding,) = findings(engine_internal.check, failed(type_, place))
        assert type_ in finding.message and place in finding.evidence[1].text


def test_what_is_no_bookkeeping_or_is_known_better_is_left_to_others() -> None:
    for reported in (
        failed("ValueError", "vllm/v1/core/sched/scheduler.py:400"),
        failed("AssertionError", "vllm/model_executor/models/qwen2.py:5"),
        failed("AssertionError", "mylib/reward.py:5"),
        failed("AssertionError", "vllm/core/scheduler.py:702", explained=["RLD201"]),
    ):
        assert findings(engine_internal.check, reported) == ()


def test_completions_that_outlive_their_request() -> None:
    """Its first completion was aborted, the others were not."""
    on = job({"request 0": answer([1, 2])})
    assert not judge_one(engine_internal.check, case(on, None)).findings
    on["records"]["gone_on"] = 1
    (finding,) = judge_one(engine_internal.check, case(on, None)).findings
    assert any("an aborted request of several completions: 1 of them go on" in one.text for one in finding.evidence)
    on["records"].update(gone_on=0, waited_on=1)
    (finding,) = judge_one(engine_internal.check, case(on, None)).findings
    assert finding.evidence[0].text == "a request that was aborted while it waited goes on"
    on["records"].update(waited_on=0, passed_over=1)
    (finding,) = judge_one(engine_internal.check, case(on, None)).findings
    assert finding.evidence[0].text == "a request that came behind one that was aborted is not answered"


def test_requests_that_later_ones_overtake() -> None:
    begun = {"request 0": 4, "request 1": 9, "request 2": 9, "request 3": 6}
    answers = {name: answer([1, 2, 3], begun=step) for name, step in begun.items()}
    (finding,) = findings(engine_internal.check, case(job(answers, BY_ARRIVAL), None))
    assert "2 of 4 began after a later one" in finding.message
    assert finding.evidence[0].text == "request 1: its first token came in step 9, that of request 3 in step 6"
    # Who is to choose otherwise may, and so may who does not say how it chooses.
    for option in (
        {"scheduling_policy": "priority"},
        {"long_prefill_token_threshold": 128},
        {"scheduling_policy": None},
    ):
        assert findings(engine_internal.check, case(job(answers, {**BY_ARRIVAL, **option}), None)) == ()
    in_order = {name: answer([1, 2, 3], begun=step) for name, step in zip(answers, (4, 6, 6, 9), strict=True)}
    assert findings(engine_internal.check, case(job(in_order, BY_ARRIVAL), None)) == ()


class TestGreedyAnswersOfTraffic:
    """Each token is the likeliest of those that come with it, whatever became of its request in between."""

    def test_one_that_is_not(self) -> None:
        repeated = answer([1, 2, 2, 3])
        repeated["tops"][2] = [[7, -0.5], [2, -2.0]]
        (finding,) = findings(engine_internal.check, case(job({**SAME, "request 0": repeated}), None))
        assert finding.code == "RLD220"
        assert "1 of its tokens are not the likeliest, first token 3" in finding.evidence[0].text

    def test_one_that_comes_without_its_own_log_probability(self) -> None:
        repeated = answer([1, 2, 2, 3])
        repeated["tops"][2], repeated["logprobs"][2] = [[7, -0.5], [8, -2.0]], None
        assert findings(engine_internal.check, case(job({"request 0": repeated}), None))

    def test_equally_likely_ones(self) -> None:
        tied = answer([1, 2, 3], gap=0.0)
        tied["tops"][1] = [[999, -2.0], [2, -2.0]]
        assert not findings(engine_internal.check, case(job({"request 0": tied}), None))

    def test_numbers_that_are_none_are_another_matter(self) -> None:
        broken = answer([1, 2, 3])
        broken["tops"][1], broken["logprobs"][1] = [[7, "nan"], [2, "nan"]], "nan"
        assert not findings(engine_internal.check, case(job({"request 0": broken}), None))

    def test_without_the_likeliest_nothing_is_told(self) -> None:
        assert not findings(engine_internal.check, case(job({"request 0": {**answer([1, 2]), "tops": []}}), None))
