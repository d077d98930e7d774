"""The table of known defects: every row can be judged, and unknown facts never fire one."""

from __future__ import annotations

import datetime

import pytest
from packaging.specifiers import SpecifierSet

from rldoctor import registry
from rldoctor.api import Case, Severity
from rldoctor.api.releases import KnownIssue, affects, known_issues
from rldoctor.knowledge.known_issues import fact
from rldoctor.plan.vocabulary import term
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
    assert issue.shown_by in registry.load().checks


def test_there_are_enough_of_them() -> None:
    assert len(known_issues()) >= 60


def test_names_are_unique() -> None:
    names = [issue.id for issue in known_issues()]
    assert len(set(names)) == len(names)


def test_what_is_unknown_counts_as_no() -> None:
    assert not any(affects(issue, Case()) for issue in known_issues())


def test_facts_of_the_plan_and_of_the_model() -> None:
    told = case(config={"architectures": ["A"], "n_routed_experts": 64}, engine__tensor_parallel_size=2)
    assert fact("model.architectures", told) == "A"
    assert fact("model.experts", told) == 64
    assert fact("engine.tensor_parallel_size", told) == 2
    assert fact("asked.engine.tensor_parallel_size", told) is None
