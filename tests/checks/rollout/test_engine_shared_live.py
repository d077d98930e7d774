"""RLD210 and RLD606 in running engines: what many callers, two threads and interrupted batches leave behind."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.processes import engine_process_died, failure_unrecognised
from rldoctor_checks.rollout.engine_shared import check

from rldoctor.api import Case, Grade, Outcome, Severity
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.cases import judged_among_all
from tests.plans import case as planned

ANSWERS = [[10 * prompt + place for place in range(6)] for prompt in range(3)]
RUNNING = [{"name": "EngineCore", "pid": 7, "exit_code": None}]


def alone(token_ids: list[int], second: float = 1.0) -> dict[str, Any]:
    """What a prompt is answered when nobody else asks; token 99 is the next likely one, at that distance."""
    tops = [[[token, -0.5], [99, -0.5 - second], [98, -3.0]] for token in token_ids]
    return {"prompt_tokens": 8, "token_ids": token_ids, "tops": tops}


def call(prompt: int, token_ids: list[int], kind: str = "whole", **more: Any) -> dict[str, Any]:
    answer = {"index": 0, "token_ids": token_ids, "finish_reason": "length" if len(token_ids) >= 6 else None}
    reported = {
        "tokens": 6,
        "completions": 1,
        "ended": "answered",
        "finals": 1,
        "wrong_prompt": False,
        "wrong_id": False,
    }
    return {"kind": kind, "prompt": prompt, **reported, "answers": [answer], **more}


def job(ended: str = "done", **records: Any) -> dict[str, Any]:
    engine = {"engine": "V1", "device": "cpu", "dtype": "bfloat16", "async_scheduling": True}
    reported = {"versions": {"vllm": "0.11.0"}, "engine": engine, **records}
    return {"ended": ended, "records": reported, "seconds": 3.0, "log": "/tmp/log.txt", "tail": [], "boot": "miniature"}


def asked(*calls: dict[str, Any], ended: str = "done", **records: Any) -> Case:
    healthy = {
        "alone": [alone(tokens) for tokens in ANSWERS],
        "left": {"callers": 0, "running": 0.0, "waiting": 0.0},
        "processes": RUNNING,
        "reach": {"requests": len(calls), "sampled_tokens": 12, "longest": 20, "seconds": 1.0},
    }
    reported = {name: value for name, value in {**healthy, **records}.items() if value is not None}
    return Case(observations={"requests": {"callers": job(ended, calls=list(calls), **reported)}})


def said(case: Case) -> CheckResult:
    return judge_one(check, case)


def message(case: Case) -> str:
    (finding,) = said(case).findings
    assert finding.evidence and finding.fixes
    return finding.message


class TestCallers:
    def test_everybody_gets_what_the_prompt_is_answered_alone(self) -> None:
        bored = call(1, ANSWERS[1][:2], kind="cancel", ended="cancelled", finals=0)
        group = call(2, [5] * 6, kind="group")
        result = said(asked(call(0, ANSWERS[0]), bored, group))
        assert result.outcome is Outcome.PASS and "3 calls" in str(result.reason)

    def test_answers_that_went_to_another(self) -> None:
        case = asked(call(0, ANSWERS[1]), call(1, ANSWERS[0]), call(2, ANSWERS[2]))
        assert message(case).startswith("2 of 3 answers went to callers that had asked something else")
        finding = said(case).findings[0]
        assert "prompt 0 got the answer to prompt 1" in finding.evidence[0].text
        assert finding.fixes[0].edits[0].option == "engine.async_scheduling"

    def test_an_output_that_names_another_prompt(self) -> None:
        assert "another prompt" in said(asked(call(0, ANSWERS[0], wrong_prompt=True))).findings[0].evidence[0].text

    def test_an_aborted_answer_that_says_it_is_whole(self) -> None:
        def given_up(reason: str | None, tokens: int = 2) -> dict[str, Any]:
            answers = [{"index": 0, "token_ids": ANSWERS[1][:tokens], "finish_reason": reason}]
            return call(1, [], kind="abort", answers=answers)

        assert message(asked(given_up("stop"))).startswith("1 of 1 answers that their callers gave up say that they")
        # Named as what it is; not named; whole before it could be aborted.
        for healthy in (given_up("abort"), given_up(None), given_up("length", tokens=6)):
            assert said(asked(healthy)).outcome is Outcome.PASS

    def test_an_answer_that_is_nobodys(self) -> None:
        odd = [*ANSWERS[0][:2], 77, 78, 79, 80]
        assert message(asked(call(0, odd))).startswith(
            "1 of 1 answers are not what the same engine answers when nobody"
        )

    def test_two_tokens_that_are_equally_likely_may_change_places(self) -> None:
        tie = [*ANSWERS[0][:2], 99, 78, 79, 80]
        near = [alone(ANSWERS[0], second=0.1), *map(alone, ANSWERS[1:])]
        assert said(asked(call(0, tie), alone=near)).findings == ()
        assert said(asked(call(0, tie))).findings
        exact = asked(call(0, tie), alone=near)
        exact.observations["requests"]["callers"]["records"]["engine"]["dtype"] = "float32"
        assert said(exact).findings

    def test_tokens_that_came_twice_and_completions_that_did_not_come(self) -> None:
        twice = call(0, [token for token in ANSWERS[0] for _ in range(2)], kind="group")
        half = call(1, ANSWERS[1], kind="group", completions=2)
        assert message(asked(twice, half, call(2, ANSWERS[2]))).startswith("2 of 3 answers came twice or in part")

    def test_a_request_that_was_never_answered(self) -> None:
        never = call(1, [], ended="lost", finals=0, answers=[])
        assert message(asked(call(0, ANSWERS[0]), never)).startswith("1 of 2 requests were never answered")

    def test_aborted_requests_that_go_on(self) -> None:
        left = {"callers": 0, "running": 3.0, "waiting": None}
        case = asked(call(0, ANSWERS[0]), left=left)
        assert "still in the engine" in message(case) and said(case).findings[0].evidence[0].text == "3 running"

    def test_what_was_seen_before_a_run_stalled_counts(self) -> None:
        assert said(asked(call(0, ANSWERS[1]), ended="stalled", reach=None, left=None)).findings

    def test_a_run_that_did_not_get_there_is_no_pass(self) -> None:
        assert said(asked(ended="stalled", alone=None)).outcome is Outcome.NOT_CHECKED


class TestDeath:
    def dead(self, *calls: dict[str, Any], exit_code: int = -9) -> Case:
        fallen = [{"name": "EngineCore", "pid": 7, "exit_code": exit_code}]
        return asked(*calls, processes=fallen, left=None)

    def test_a_killed_engine_is_reported_with_what_its_callers_were_reported(self) -> None:
        chain: list[Any] = [
            {"type": "vllm.v1.engine.exceptions.EngineDeadError", "message": "", "frames": [], "link": None}
        ]
        reported = call(0, [], ended="raised", finals=0, answers=[], exceptions=chain)
        untold = call(1, [], ended="waiting", finals=0, answers=[])
        (finding,) = judge_one(engine_process_died.check, self.dead(reported, untold)).findings
        assert "EngineCore" in finding.message and "SIGKILL (exit code -9)" in finding.message
        texts = [one.text for one in finding.evidence]
        assert any("EngineDeadError" in text for text in texts) and any("waited on" in text for text in texts)
        assert finding.fixes[0].commands

    def test_an_exception_in_it_is_reported_by_its_log_unless_nobody_heard_of_it(self) -> None:
        case = self.dead(exit_code=1)
        assert "by itself (exit code 1)" in judge_one(engine_process_died.check, case).findings[0].message
        case.observations["requests"]["callers"]["ended"] = "raised"
        assert judge_one(engine_process_died.check, case).findings == ()

    def test_all_alive(self) -> None:
        result = judge_one(engine_process_died.check, asked(call(0, ANSWERS[0])))
        assert result.outcome is Outcome.PASS

    def test_no_second_finding_for_the_same_death(self) -> None:
        case = self.dead()
        case.observations["requests"]["callers"]["ended"] = "raised"
        assert engine_process_died.explains(case.observations["requests"]["callers"])
        case.observations["rollout"] = {}
        assert judged_among_all(failure_unrecognised.check, case).findings == ()


def batch(thread: str = "training", got: int | None = 4, foreign: int = 0, ended: str = "answered", **more: Any) -> Any:
    tokens = [[1, 2, 3]] * (got or 0)
    return {"thread": thread, "asked": 4, "got": got, "foreign": foreign, "ended": ended, "token_ids": tokens, **more}


FAILED: dict[str, Any] = {
    "ended": "raised",
    "got": None,
    "exceptions": [
        {
            "type": "AssertionError",
            "message": "",
            "link": None,
            "frames": [{"file": "/v/lib/site-packages/vllm/core/scheduler.py", "line": 1304, "function": "_schedule"}],
        }
    ],
}


class TestThreads:
    def shared(self, *calls: Any, stuck: dict[str, list[str]] | None = None) -> Case:
        reach = {"requests": 8, "sampled_tokens": 24, "threads": 2, "seconds": 1.0}
        reported = job(calls=list(calls), stuck=stuck or {}, alone={}, reach=reach)
        plan = planned(framework="ms-swift", rollout__async=True, rollout__evaluates=True).plan
        return Case(observations={"shared_engine": {"threads": reported}}, plan=plan)

    def test_they_collide(self) -> None:
        case = self.shared(
            batch("evaluation", got=6, foreign=4),
            batch(**FAILED),
            batch("evaluation", got=None, ended="waiting"),
            stuck={"evaluation": ["/v/site-packages/vllm/engine.py:9 in step"]},
        )
        (finding,) = said(case).findings
        assert finding.grade is Grade.REPRODUCED and finding.fixes[0].edits[0].option == "rollout.async"
        assert [one.text for one in finding.evidence if one.source == "shared_engine scenario"] == [
            "evaluation: 6 outputs for 4 prompts, 4 outputs beside prompts that are not theirs",
            "training: AssertionError at vllm/core/scheduler.py:1304 in _schedule",
            "evaluation: never came back from generate, last seen in vllm/engine.py:9 in step",
        ]

    def test_a_native_crash_of_both(self) -> None:
        case = self.shared()
        fallen = case.observations["shared_engine"]["threads"]
        fallen.update(ended="died", signal="SIGSEGV")
        fallen["records"].update(turns=False, calls=None, reach=None)
        assert said(case).findings[0].evidence[-1].text.endswith("ended by SIGSEGV")
        case.observations["rollout"] = {}
        assert judged_among_all(failure_unrecognised.check, case).findings == ()
        fallen["records"].update(turns=True)
        assert said(case).findings == () and judged_among_all(failure_unrecognised.check, case).findings

    def test_they_take_turns(self) -> None:
        result = said(self.shared(batch(), batch("evaluation")))
        assert result.outcome is Outcome.PASS and "8 requests from two threads" in str(result.reason)


class TestInterruption:
    def again(self, aborted: Any, reused: Any, afterwards: bool = True) -> Case:
        reach = {"requests": 8, "interruptions": 2, "sampled_tokens": 24, "seconds": 1.0}
        reported = job(
            alone=[[1, 2, 3]] * 4,
            aborted={"in prefill": {"left": 4, **aborted}},
            reused={"in prefill": {"left": 4, **reused}},
            afterwards=afterwards,
            reach=reach,
        )
        return Case(observations={"interrupted": {"again": reported}})

    def test_what_every_release_does_is_reported_and_no_finding(self) -> None:
        result = said(self.again(batch(), batch(got=8, foreign=4)))
        assert result.outcome is Outcome.PASS
        assert "interrupted in prefill 8 outputs for 4 prompts" in str(result.reason)

    def test_leftovers_that_stay_although_they_were_aborted(self) -> None:
        (finding,) = said(self.again(batch(got=8, foreign=4), batch(got=8, foreign=4))).findings
        assert "4 requests aborted, then 8 outputs for 4 prompts" in finding.evidence[0].text
        assert finding.severity is Severity.WARNING  # it was interrupted within a step

    def test_an_engine_that_is_another_afterwards(self) -> None:
        (finding,) = said(self.again(batch(), batch(), afterwards=False)).findings
        assert "in the end" in finding.evidence[0].text
