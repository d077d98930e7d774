"""RLD608: two versions of Ray or Python."""

from __future__ import annotations

from rldoctor_checks.processes.ray_versions import check

from rldoctor.api import Case, Outcome, Severity
from rldoctor.api.facts import Distribution, Packages
from rldoctor.judge import judge_one
from tests.logs.asking import finding, findings, raised

MESSAGE = (
    "Version mismatch: The cluster was started with:\n    Ray: 2.40.0\n    Python: 3.10.12\nThis process on node "
    "10.0.0.2 was "
    "started with:\n    Ray: 2.46.0\n    Python: 3.11.9\n"
)


def test_both_sides_are_named() -> None:
    found = finding(check, raised("RuntimeError", MESSAGE))
    assert "Ray 2.40.0 on Python 3.10.12, this process Ray 2.46.0 on Python 3.11.9" in found.message
    assert "pip install ray==2.40.0" in found.fixes[0].commands


def test_a_patch_release_of_python_is_a_warning_of_rays() -> None:
    assert (
        findings(check, "WARNING utils.py:1564 -- Python patch version mismatch: The cluster was started with:\n") == []
    )


def joining(ray: str, python: str) -> Case:
    """An environment with Ray 2.60.0 on Python 3.11.7, and what a cluster says that it was started with."""
    records = {"actors": [], "nodes": [], "started": {"ray": ray, "python": python}, "address": "head:6379"}
    return Case(
        packages=Packages(python="3.11.7", distributions=(Distribution(name="ray", version="2.60.0"),)),
        observations={"ray_cluster": {"cluster": {"ended": "done", "records": records}}},
    )


def test_a_cluster_of_another_release() -> None:
    (found,) = judge_one(check, joining("2.55.1", "3.11.7")).findings
    assert found.severity is Severity.ERROR
    assert "head:6379 runs Ray 2.55.1 on Python 3.11.7, this environment has Ray 2.60.0" in found.message
    assert "pip install ray==2.55.1" in found.fixes[0].commands


def test_another_python() -> None:
    severities = [judge_one(check, joining("2.60.0", v)).findings[0].severity for v in ("3.12.1", "3.11.9")]
    assert severities == [Severity.ERROR, Severity.WARNING]


def test_the_same_releases() -> None:
    assert judge_one(check, joining("2.60.0", "3.11.7")).outcome is Outcome.PASS
    assert judge_one(check, joining("", "")).outcome is Outcome.NOT_CHECKED
