"""RLD602: requests that the Ray cluster cannot fulfil."""

from __future__ import annotations

from rldoctor_checks.processes.ray_resources import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY

PENDING = (
    "\x1b[33m(autoscaler +6s)\x1b[0m Error: No available node types can fulfill resource request "
    "{'CPU': 1.0, 'GPU': 1.0}. Add suitable node types to this cluster to resolve this issue.\n"
)


def test_a_request_that_stays_pending_needs_no_crash() -> None:
    assert triage_text(PENDING, [check]).incident.kind == "stalled"  # type: ignore[union-attr]
    found = finding(check, "Started a local Ray instance.\n" + PENDING + PENDING.replace("+6s", "+41s"))
    assert "{'CPU': 1.0, 'GPU': 1.0}" in found.message
    assert len(found.evidence) == 1


def test_a_request_that_waited_for_a_node_in_a_run_that_ended_well() -> None:
    assert findings(check, PENDING + HEALTHY) == []


def test_verls_own_comparison() -> None:
    # https://github.com/verl-project/verl/issues/2515
    found = finding(check, raised("ValueError", "Total available GPUs 8.0 is less than total desired GPUs 16"))
    assert "Ray has 8.0 GPUs, the resource pools ask for 16" in found.message


def test_a_bundle_that_does_not_exist() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/pull/728
    found = finding(
        check, raised("ValueError", "placement group bundle index 6 is invalid. Valid placement group indexes: 0-4")
    )
    assert "bundle 6 of a placement group that has 0-4" in found.message
