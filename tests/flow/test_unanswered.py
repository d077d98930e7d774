"""A pass is an answer: no detector passes where a setting that it asks for cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from rldoctor import example, registry
from rldoctor.api import Case, Check, Finding, Outcome, Reach, RolloutPlan, Setting
from rldoctor.check import Detector
from rldoctor.flow import engine
from rldoctor.judge import judge as judge_all
from rldoctor.judge import judge_one
from rldoctor.plan.evidence import plan_of
from tests.cases import judged
from tests.plans import case as planned

REGISTRY = registry.load()
EXAMPLES = [file for check in REGISTRY.checks.values() if (file := example.file_of(check)) is not None]


def test_a_pass_without_the_setting_is_no_answer() -> None:
    check = Check("ACME01", "acme", "")

    @check.declared(needs=["plan"])
    def short(case: Case) -> Iterator[Finding | Reach]:
        """Reads a setting with a default."""
        yield Reach(f"{plan_of(case).value('lengths.response', 0)} tokens")

    case = planned(lengths__response=512)
    assert case.plan is not None and judged(check, case).outcome is Outcome.PASS
    unknown = {"lengths.response": Setting(value=None, key="max_tokens", unknown="$MAX is not set")}
    result = judged(check, replace(case, plan=replace(case.plan, settings=unknown)))
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason == "max_tokens cannot be read from the launch: $MAX is not set"


def launches(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases of all worked examples that have a launch."""
    seen: list[Case] = []

    def spying(checks: object, case: Case, *more: object) -> object:
        seen.append(case)
        return judge_all(checks, case, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "judge", spying)
    for file in EXAMPLES:
        example.judge(example.read(file).quiet, REGISTRY)
    return [case for case in seen if case.plan is not None]


def asked(monkeypatch: pytest.MonkeyPatch, check: Check, detector: Detector, case: Case) -> set[str]:
    """The settings that a detector which passes asks the plan for."""
    names: set[str] = set()
    original = RolloutPlan.get

    def recording(plan: RolloutPlan, name: str) -> Setting | None:
        if plan is case.plan:  # not the rollout server's own
            names.add(name)
        return original(plan, name)

    with monkeypatch.context() as patched:
        patched.setattr(RolloutPlan, "get", recording)
        outcome = alone(check, detector, case)
    return names if outcome is Outcome.PASS else set()


def alone(check: Check, detector: Detector, case: Case) -> Outcome:
    lone = Check(check.code, check.name, check.doc)
    lone.detectors = [detector]
    return judge_one(lone, case).outcome


def test_no_pass_survives_the_loss_of_a_setting_that_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = launches(monkeypatch)
    passed, survived = 0, []
    for case in cases:
        assert case.plan is not None
        for check in REGISTRY.checks.values():
            for detector in check.detectors:
                for name in asked(monkeypatch, check, detector, case):
                    setting = case.plan.settings.get(name)
                    if setting is None or setting.unknown is not None:
                        continue
                    passed += 1
                    gone = {**case.plan.settings, name: replace(setting, value=None, unknown="taken away")}
                    without = replace(case, plan=replace(case.plan, settings=gone))
                    if alone(check, detector, without) is Outcome.PASS:
                        survived.append(f"{check.code} {detector.judge.__name__} {name}")
    assert passed > 1000
    assert sorted(set(survived)) == []
