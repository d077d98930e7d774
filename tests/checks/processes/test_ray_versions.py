"""RLD608: two versions of Ray or Python."""

from __future__ import annotations

from rldoctor_checks.processes.ray_versions import check

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
