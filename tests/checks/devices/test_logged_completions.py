"""RLD311 from a log: completions that TRL, ms-swift or verl wrote beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.api import Case, Finding, Severity
from rldoctor.api.facts import Series
from rldoctor.judge import judge_one
from rldoctor.logs import metrics
from rldoctor.logs.triage import triage_text
from tests.loaded import REGISTRY

check = REGISTRY.checks["RLD311"]
DATA = Path(__file__).parents[2] / "logs" / "metrics" / "data"


def findings(case: Case) -> tuple[Finding, ...]:
    return judge_one(check, case).findings


def logged(name: str) -> Case:
    lines = (DATA / name).read_bytes().decode().split("\n")
    return Case(metrics=metrics.collect((name, number, line) for number, line in enumerate(lines, 1)))


def made(groups: list[float], identical: list[float], entropy: float | None = None) -> Case:
    rows = {"sampled_groups": groups, "sampled_groups_identical": identical}
    if entropy is not None:
        rows["entropy"] = [entropy] * len(groups)
    return Case(
        metrics={
            name: Series(key=name, steps=tuple(range(1, len(row) + 1)), values=tuple(row)) for name, row in rows.items()
        }
    )


def test_greedy_sampling_in_trl() -> None:
    (finding,) = findings(logged("trl_top_k_1.txt"))
    assert finding.severity is Severity.ERROR and "in all 8 logged groups (4 steps since step 1)" in finding.message
    assert {edit.option for edit in finding.fixes[0].edits} >= {"sampling.temperature", "sampling.top_k"}


def test_a_table_behind_line_numbers() -> None:
    """The bar of the table's frame is none of the numbering's (``cat -n``)."""
    lines = (DATA / "trl_top_k_1.txt").read_bytes().decode().split("\n")
    text = "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(lines, 1))
    assert "RLD311" in {finding.code for finding in triage_text(text).findings}


def test_ms_swifts_completions_file() -> None:
    assert findings(logged("ms_swift_completions.jsonl"))


@pytest.mark.parametrize(
    "name", ["trl_sampled_completions.txt", "trl_constant_reward.txt", "trl_prompt_only_reward.txt"]
)
def test_other_runs_are_quiet(name: str) -> None:
    assert findings(logged(name)) == ()


def test_some_equal_groups_are_quiet() -> None:
    assert findings(made([4.0, 4.0], [4.0, 3.0])) == ()


def test_one_group_may_be_chance() -> None:
    assert findings(made([1.0], [1.0])) == ()
    assert "too few logged groups of several completions to tell: 1" in str(judge_one(check, made([1.0], [1.0])).reason)
    assert [f.severity for f in findings(made([2.0], [2.0]))] == [Severity.WARNING]


def test_a_sure_policy_repeats_itself() -> None:
    assert findings(made([4.0, 4.0], [4.0, 4.0], entropy=0.001)) == ()
