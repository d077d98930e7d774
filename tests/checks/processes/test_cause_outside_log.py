"""RLD901: only wrappers are in the log."""

from __future__ import annotations

from rldoctor_checks.processes.cause_outside_log import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, REWARD_RAISES, elastic


def test_torchruns_summary_alone_says_where_the_ranks_wrote() -> None:
    found = finding(check, elastic(3))
    assert any("--log-dir" in fix.title for fix in found.fixes)


def test_rays_carrier_without_what_it_carries() -> None:
    text = raised("ray.exceptions.RayTaskError(ValueError)", "ray::main() (pid=1, ip=10.0.0.1)")
    assert any("/tmp/ray/session_latest/logs" in fix.title for fix in finding(check, text).fixes)


def test_with_its_cause_in_sight_nothing_is_missing() -> None:
    assert findings(check, REWARD_RAISES + elastic(0)) == []
    assert [f.code for f in triage_text(REWARD_RAISES + elastic(0)).findings] == ["RLD902"]
    assert findings(check, HEALTHY) == []
