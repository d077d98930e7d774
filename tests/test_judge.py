"""What a finding rests on is in its first sentence: the numbers that nobody gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from rldoctor.api import Case, Check, Reach, Setting, plan_of
from rldoctor.judge import judge_one, with_defaults
from rldoctor.model import CheckResult, Evidence, Finding, Grade, Outcome, Severity
from tests.checks.launches import LaunchFile
from tests.loaded import REGISTRY
from tests.plans import case


def finding(message: str, *evidence: str, grade: Grade = Grade.DECLARED) -> Finding:
    lines = tuple(Evidence(text=text) for text in evidence)
    return Finding(
        code="RLD211", name="batch-indivisible", severity=Severity.ERROR, grade=grade, message=message, evidence=lines
    )


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (finding("3 is too few. More.", "n = 3 (default)", "m = 1"), "3 is too few (by default: n = 3). More."),
        (
            finding("n 3 is too few", "rollout.n = 3 (default)", "m = 1 (default)"),
            "n 3 (default) is too few (by default: m = 1)",
        ),
        (
            finding("n 30 is many, an 3 too", "rollout.n = 3 (default)"),
            "n 30 is many, an 3 too (by default: rollout.n = 3)",
        ),
        (finding("a", *(f"{n} = 1 (default)" for n in "abcd")), "a (by default: a = 1, b = 1, c = 1 ...)"),
        (finding("a", "steps = None (default)"), "a"),
        (finding("given", "n = 3"), "given"),
        (finding("the default n is 3", "n = 3 (default)"), "the default n is 3"),
        (finding("seen", "n = 3 (default)", grade=Grade.OBSERVED), "seen"),
    ],
)
def test_the_first_sentence_names_defaults(found: Finding, message: str) -> None:
    assert with_defaults(found).message == message


def test_a_launch_that_names_no_group_size(tmp_path: object) -> None:
    text = (
        "python3 -m verl.trainer.main_ppo data.train_batch_size=128 actor_rollout_ref.actor.ppo_mini_batch_size=32 "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8 trainer.nnodes=1 "
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 actor_rollout_ref.model.path=m\n"
    )
    file = LaunchFile(tmp_path, text, {"verl": "0.7.0", "vllm": "0.12.0"})  # type: ignore[arg-type]
    messages = [found.message for found in file.findings(REGISTRY.checks["RLD211"])]
    assert any("(by default: actor_rollout_ref.rollout.n = 1" in message for message in messages), messages


def mixed(declared: str, observed: str, settings: Mapping[str, Setting] | None = None) -> CheckResult:
    """What comes of a check whose two detectors read a setting each; the observed one's probe has run."""
    check = Check("ACME01", "acme", "")

    @check.declared(needs=["plan"])
    def planned(case: Case) -> Iterator[Finding | Reach]:
        """Reads one setting."""
        yield Reach(f"{plan_of(case).value(declared)} in the launch")

    @check.observed(needs=["plan", "observations.rollout"])
    def played(case: Case) -> Iterator[Finding | Reach]:
        """Reads the other."""
        yield Reach(f"{plan_of(case).value(observed)} in traffic")

    made = case(engine__seed=1, engine__max_model_len=1)
    assert made.plan is not None
    plan = replace(made.plan, settings={**made.plan.settings, **(settings or {})})
    ran = {"rollout": {"miniature": {"ended": "done", "records": {"reach": 1}}}}
    return judge_one(check, replace(made, plan=plan, observations=ran))


UNREAD = Setting(value=None, key="--seed", file="run.sh", line=3, unknown="$SEED is not set")


def test_a_pass_of_one_detector_does_not_stand_for_what_the_other_could_not_read() -> None:
    assert mixed("engine.max_model_len", "engine.seed").outcome is Outcome.PASS
    for one in (("engine.max_model_len", "engine.seed"), ("engine.seed", "engine.max_model_len")):
        result = mixed(*one, {"engine.seed": UNREAD})
        assert result.outcome is Outcome.NOT_CHECKED, one
        assert result.lacks == ("plan.trainer.engine.seed",)
        assert "--seed cannot be read from the launch: $SEED is not set" in (result.reason or "")
