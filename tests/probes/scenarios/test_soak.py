"""The soak scenario: a life in small on a real engine, healthy and with what leaks; what counts as growth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices import completions_identical
from rldoctor_checks.processes import failure_unrecognised, host_memory
from rldoctor_checks.rollout import engine_internal
from rldoctor_checks.sync import outputs_corrupt

from rldoctor.api import Case, Grade, NotApplicable, Outcome
from rldoctor.api.probes import Basis, Engine, Request, Run
from rldoctor.judge import judge_one
from rldoctor.probes.scenarios.soak import soak
from tests.live import cases_of_faults
from tests.plans import case

SHORT = case(lengths__prompt=64, lengths__response=16, engine__max_model_len=256).plan
SERVES_ADAPTERS = case(engine__enable_lora=True, lora__rank=8, engine__enable_sleep_mode=True).plan
MIB = 1 << 20
LEAKS = "soak:leaks,soak:slower"
SECONDS = 24
CHECKS = (host_memory.check, engine_internal.check, outputs_corrupt.check, completions_identical.check)


def _shorter(*given: Any) -> Mapping[str, Run]:
    """The traffic of a launch on an engine whose cache has room: a leak must not bring it to a halt."""
    case, request, basis = given
    (run,) = soak.runs(case, replace(request, soak=1), basis).values()
    room = Engine(options={"num_gpu_blocks_override": 4_000})
    return {"traffic": replace(run, engine=room, arguments={**run.arguments, "seconds": SECONDS})}


@pytest.fixture(scope="module")
def soaked(patient: Path) -> dict[str, Case]:
    """Soaks of a healthy engine and of one with leaks; on a machine with more to do they are a dozen cycles."""
    return cases_of_faults(patient, replace(soak, runs=_shorter), faults=["", LEAKS], plan=SHORT)


def test_it_is_played_only_where_minutes_were_asked_for() -> None:
    with pytest.raises(NotApplicable, match="--soak"):
        soak.runs(Case(), Request(), Basis())
    (run,) = soak.runs(Case(), Request(soak=2), Basis()).values()
    assert run.arguments["seconds"] == 120 and run.time_limit > 120


def test_a_cycle_has_what_the_launch_does_to_its_engine() -> None:
    (plain,) = soak.runs(Case(), Request(soak=2), Basis()).values()
    assert [plain.arguments[name] for name in ("update", "adapter", "sleep")] == [True, None, None]
    served = Case(plan=SERVES_ADAPTERS)
    (run,) = soak.runs(served, Request(soak=2), Basis(device="cuda")).values()
    assert (run.arguments["update"], run.arguments["adapter"]["rank"], run.arguments["sleep"]) == (False, 8, 1)
    assert run.engine.options["enable_lora"] is True
    # vLLM has no sleep mode on the CPU.
    (run,) = soak.runs(served, Request(soak=2), Basis(device="cpu")).values()
    assert run.arguments["sleep"] is None


@pytest.mark.engine
def test_a_healthy_engine_stays_as_it_is(soaked: dict[str, Case]) -> None:
    reported = soaked[""]
    job = reported.observations["soak"]["traffic"]
    assert job["ended"] == "done", job["tail"][-5:]
    assert job["records"]["played"]["parts"] == ["traffic", "update"]
    assert all(window["unfinished"] == 0 < window["aborted"] for window in job["records"]["windows"])
    for check in CHECKS:
        assert judge_one(check, reported).findings == ()
    reason = str(judge_one(host_memory.check, reported).reason)
    assert f"{job['records']['played']['requests']} requests in" in reason and "MiB a cycle on)" in reason


@pytest.mark.engine
def test_all_that_leaks_is_named_with_what_a_cycle_loses(soaked: dict[str, Case]) -> None:
    reported = soaked[LEAKS]
    (grown,) = judge_one(host_memory.check, reported).findings
    assert grown.grade is Grade.OBSERVED and "host memory" in grown.message and "GiB in 1000 cycles" in grown.message
    found = [one.message for one in judge_one(engine_internal.check, reported).findings]
    for lost in (
        "loses KV blocks",
        "open sockets",
        "open files",
        "threads",
        "processes",
        "files in /dev/shm",
        "slower",
    ):
        assert any(lost in message for message in found), (lost, found)
    (blocks,) = [message for message in found if "KV blocks" in message]
    # One of twelve requests loses a block; the fixed requests at the end of a window count, too, and on a slow machine
    # a window is a single cycle.
    assert 0.7 < float(blocks.rpartition("under traffic: ")[2].split()[0]) < 2


def fixed(drawn: int = 0) -> dict[str, Any]:
    """The requests that are the same every time, answered as they ought to be."""
    told = {"greedy 1": [1, 2, 3], "greedy 2": [4, 5, 6], "aborted": [7, 8], "drawn 1": [drawn, 9, 9]}
    answers = {
        name: {
            "token_ids": tokens,
            "logprobs": [-9.0] * len(tokens),
            "finish_reason": None if name == "aborted" else "length",
            "aborted": name == "aborted",
            "aborted_at": 2 if name == "aborted" else None,
            "wrong_prompt": False,
        }
        for name, tokens in told.items()
    }
    return {"answers": answers, "strangers": [], "twice": [], "steps": 3}


def broken(change: Callable[[dict[str, Any]], object], since: int = 5) -> Case:
    """A soak whose fixed requests are answered as ``change(answers)`` has it from some window on."""
    reported = windows(host=[900.0 * MIB] * 12)
    for row in reported.observations["soak"]["traffic"]["records"]["windows"][since:]:
        change(row["fixed"]["answers"])
    return reported


def windows(**series: list[float]) -> Case:
    """A soak of three cycles a window in which these quantities went so."""
    count = len(next(iter(series.values())))
    rows: list[dict[str, Any]] = [
        {
            "seconds": 10.0 * i,
            "cycles": 3 * i,
            "requests": 36,
            "unfinished": 0,
            "fixed": fixed(drawn=i),
        }
        for i in range(1, count + 1)
    ]
    for name, values in series.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    job = {"ended": "done", "boot": "miniature", "records": {"first": fixed(), "windows": rows}}
    return replace(Case(), observations={"soak": {"traffic": job}})


def found(reported: Case) -> list[str]:
    return [one.message for check in CHECKS for one in judge_one(check, reported).findings]


QUIET: dict[str, list[Any]] = {
    "one step": [900 * MIB] * 6 + [960 * MIB] * 6,
    "two steps": [900 * MIB] * 6 + [930 * MIB] * 3 + [960 * MIB] * 3,
    "a pool that fills": [MIB * (1000 - 200 * math.exp(-i / 3)) for i in range(12)],
    "up and down": [MIB * (900 + 30 * (i % 3)) for i in range(12)],
    "a little": [MIB * (900 + i) for i in range(12)],
    "falling": [MIB * (900 - 20 * i) for i in range(12)],
}


@pytest.mark.parametrize("name", QUIET)
def test_what_is_no_growth(name: str) -> None:
    assert found(windows(host=QUIET[name])) == []


def test_growth_is_told_by_the_cycle() -> None:
    (said,) = found(windows(host=[MIB * (900 + 15 * i + i % 2) for i in range(12)]))
    assert "by 5." in said and "MiB a cycle: 4.9 GiB in 1000 cycles" in said
    (said,) = found(windows(free_blocks=[300.0 - 3 * i for i in range(12)]))
    assert "loses KV blocks under traffic: 1 blocks a cycle" in said
    # Sockets are files; what has as many files too many has no other leak.
    sockets = [13.0 + 3 * i for i in range(12)]
    assert len(found(windows(sockets=sockets, files=[40 + value for value in sockets]))) == 1
    assert len(found(windows(sockets=sockets, files=[40 + 3 * value for value in sockets]))) == 2


def starving(cycles: list[int], blocks: list[float], served: int) -> Case:
    """A soak in which blocks are lost until nothing is scheduled any more, after so many measures."""
    reported = windows(free_blocks=blocks)
    for i, row in enumerate(reported.observations["soak"]["traffic"]["records"]["windows"]):
        row["cycles"] = cycles[i]
        if i >= served:
            row["unfinished"] = 12
            for answer in row["fixed"]["answers"].values():
                answer.update(token_ids=[], logprobs=[], finish_reason=None, aborted=False, aborted_at=None)
    return reported


def test_an_engine_whose_blocks_run_out_loses_blocks_and_nothing_else() -> None:
    """A busy machine plays fewer cycles between two measures, and fewest when requests wait for each other."""
    cycles = [7, 13, 19, 28, 38, 47, 51, 54, 55, 56]
    (said,) = found(starving(cycles, [17, 15, 14, 11, 8, 5, 4, 3, 2, 2], served=8))
    assert "loses KV blocks under traffic: 0.3" in said
    # Too quick for a slope.
    (said,) = found(starving([4, 9, 10, 11, 12, 13], [11, 1, 1, 1, 1, 1], served=1))
    assert "loses or mixes up requests of a single caller after 9 cycles: 2 faults" in said


def test_steps_that_take_longer() -> None:
    assert (
        found(windows(step=[0.004, 0.016, 0.003, 0.012, 0.005, 0.017, 0.012, 0.003, 0.009, 0.003, 0.016, 0.004])) == []
    )
    (said,) = found(windows(step=[0.004 * (1 + 0.1 * i) for i in range(12)]))
    assert "becomes slower under steady traffic: a step takes 4 ms at its quickest and 8.4 ms" in said


def test_an_answer_that_turns_is_told_with_the_requests_before_it() -> None:
    reported = broken(lambda answers: answers["greedy 1"].update(token_ids=[1, 3, 3]))
    (said,) = found(reported)
    assert "answers requests otherwise after 180 requests, with the same weights (greedy 1)" in said
    rows = reported.observations["soak"]["traffic"]["records"]["windows"]
    rows[9]["fixed"] = fixed()
    assert found(reported) == []  # at times is rounding


def test_a_text_that_is_another_from_some_cycle_on_is_another_answer() -> None:
    cut = broken(lambda answers: answers["greedy 1"].update(text="ab"))
    (one,) = judge_one(outputs_corrupt.check, cut).findings
    assert one.evidence[1].text.endswith("finish reason length, text 'ab' after 18 cycles")


def test_log_probabilities_that_are_missing_from_some_cycle_on_are_another_answer() -> None:
    silent = broken(lambda answers: answers["greedy 1"].update(logprobs=[None] * 3))
    (one,) = judge_one(outputs_corrupt.check, silent).findings
    assert one.evidence[1].text == (
        "greedy 1: token ids [1, 2, 3], 0 log-probabilities, finish reason length after 18 cycles"
    )


def test_log_probabilities_that_drift_beyond_rounding_are_another_answer() -> None:
    drifted = broken(lambda answers: answers["greedy 1"].update(logprobs=[-9.01] * 3))
    records = drifted.observations["soak"]["traffic"]["records"]
    assert found(drifted) == []  # without figures for the noise token ids alone tell
    records["engine"] = {"dtype": "bfloat16", "device": "cuda"}
    assert found(drifted) == []
    records["engine"] = {"dtype": "float32", "device": "cpu"}
    (one,) = judge_one(outputs_corrupt.check, drifted).findings
    assert "of -27.03 in all" in one.evidence[1].text


def test_requests_that_get_each_others_answers_from_some_cycle_on_are_one_finding() -> None:
    def swap(answers: dict[str, Any]) -> None:
        # While the other's went on when this one ended.
        answers["greedy 1"]["token_ids"], answers["greedy 2"]["token_ids"] = [4, 5], [1, 2, 3]

    (said,) = found(broken(swap))
    assert "loses or mixes up requests of a single caller after 18 cycles: 2 faults" in said


def test_an_abort_that_is_ignored_from_some_cycle_on() -> None:
    (said,) = found(broken(lambda answers: answers["aborted"].update(token_ids=[7] * 16)))
    assert "after 18 cycles: 1 faults" in said


def test_what_is_drawn_again_and_again_is_not_drawn() -> None:
    (said,) = found(broken(lambda answers: answers["drawn 1"].update(token_ids=[5, 5, 5])))
    assert "draws the same completions again after 36 cycles" in said
    # A sure model repeats itself.
    sure = {"token_ids": [5, 5, 5], "logprobs": [-0.01] * 3}
    assert found(broken(lambda answers: answers["drawn 1"].update(sure))) == []
    # Once is chance, or what a window before it was as well.
    assert found(broken(lambda answers: answers["drawn 1"].update(token_ids=[5, 5, 5]), since=10)) == []


def test_an_engine_that_breaks_is_told_with_the_requests_before_it() -> None:
    played = {"cycles": 8, "requests": 96, "parts": ["traffic", "update"]}
    error = {"type": "RuntimeError", "message": "the request table is full", "frames": []}
    job = {
        "ended": "raised",
        "boot": "miniature",
        "records": {"stage": "soak: traffic", "played": played},
        "error": error,
    }
    reported = Case(observations={"rollout": {}, "soak": {"traffic": job}})
    (one,) = judge_one(failure_unrecognised.check, reported).findings
    assert one.evidence[0].text == "after 96 requests in 8 cycles of traffic, update"


def test_a_soak_that_was_too_short_tells_nothing() -> None:
    short = windows(host=[1.0])
    result = judge_one(host_memory.check, short)
    assert result.outcome is Outcome.NOT_CHECKED and "--soak with more minutes" in str(result.reason)
