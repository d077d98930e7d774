"""The table of known defects: every row can be judged, and unknown facts never fire one."""

from __future__ import annotations

import datetime

import pytest
from packaging.specifiers import SpecifierSet

from rldoctor.api import Case, Severity
from rldoctor.api.facts import Distribution, Packages
from rldoctor.api.releases import KnownIssue, known_issues
from rldoctor.knowledge.scope import Scope, fact
from rldoctor.plan.model import RolloutPlan, Setting, Source
from rldoctor.plan.vocabulary import term
from tests.loaded import REGISTRY
from tests.plans import case

SPECIAL = ("engine.generation", "model.architectures", "model.experts")


@pytest.mark.parametrize("issue", known_issues(), ids=lambda issue: issue.id)
def test_a_row_is_sound(issue: KnownIssue) -> None:
    for versions in (issue.versions, *issue.beside.values()):
        SpecifierSet(versions)
    Severity(issue.severity)
    datetime.date.fromisoformat(issue.verified)
    assert issue.url.startswith("https://") and issue.symptom and issue.fix
    for name in issue.when:
        known = name in SPECIAL or name.startswith("model.config.") or term(name.removeprefix("asked."))
        assert known, name
    for option in issue.edits:
        assert term(option), option


@pytest.mark.parametrize("issue", known_issues(), ids=lambda issue: issue.id)
def test_the_range_is_the_one_between_introduction_and_repair(issue: KnownIssue) -> None:
    affected = SpecifierSet(issue.versions)
    assert issue.introduced is None or affected.contains(issue.introduced)
    assert issue.fixed is None or not affected.contains(issue.fixed)
    assert issue.shown_by in REGISTRY.checks


def test_there_are_enough_of_them() -> None:
    assert len(known_issues()) >= 60


def test_names_are_unique() -> None:
    names = [issue.id for issue in known_issues()]
    assert len(set(names)) == len(names)


def test_what_is_unknown_counts_as_no() -> None:
    assert not any(issue.covers(Case()) for issue in known_issues())


def test_facts_of_the_plan_and_of_the_model() -> None:
    reported = case(config={"architectures": ["A"], "n_routed_experts": 64}, engine__tensor_parallel_size=2)
    assert fact("model.architectures", reported) == "A"
    assert fact("model.experts", reported) == 64
    assert fact("engine.tensor_parallel_size", reported) == 2
    assert fact("asked.engine.tensor_parallel_size", reported) is None


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({"placement.mode": "colocate"}, True),
        ({"placement.mode": {"not": "server"}}, True),
        ({"placement.mode": {"not": "colocate"}}, False),
        ({"rollout.tools": {"not": True}}, False),  # nothing is known of it
        ({"said.placement.mode": True}, True),
        ({"said.engine.seed": True}, False),  # a default
        ({"said.engine.seed|said.placement.mode": True}, True),
        ({"engine.seed": [0, 1], "placement.mode": ["colocate", "server"]}, True),
        ({"engine.seed": {"above": 0}}, False),
    ],
)
def test_settings_that_a_scope_asks_for(when: dict[str, object], holds: bool) -> None:
    settings = {"placement.mode": Setting(value="colocate"), "engine.seed": Setting(value=0, source=Source.DEFAULT)}
    case = Case(
        packages=Packages(python="3.11", distributions=(Distribution(name="trl", version="0.24.0"),)),
        plan=RolloutPlan(framework="TRL", dialect="TRL", file="run.sh", entry="trl grpo", settings=settings),
    )
    assert Scope(("TRL",), "trl", ">=0.20", when=when).covers(case) is holds
    assert Scope(("TRL",), "trl", ">=0.20", when=when).concerns(case)
    assert not Scope(("TRL",), "trl", "<0.20", when=when).concerns(case)
