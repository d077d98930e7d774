"""RLD601: actors that another Ray instance or namespace holds."""

from __future__ import annotations

from rldoctor_checks.processes.ray_actors_invisible import check

from tests.logs.asking import finding, findings, raised


def test_verls_executor_that_counts_no_actors() -> None:
    # https://github.com/rllm-org/rllm/issues/147
    text = raised(
        "AssertionError",
        "instance_id: ab:cd:2:0 has 0 actors, but vllm_dp_size: 2 * vllm_tp_size: 4 = 8 is expected.",
        "/opt/verl/workers/rollout/vllm_rollout/vllm_async_server.py _init_executor",
    )
    found = finding(check, "Process EngineCore_0:\n" + text)
    assert "0 of 8 rollout actors" in found.message
    assert any(edit.option == "env.RAY_ADDRESS" for fix in found.fixes for edit in fix.edits)


def test_a_named_actor_in_another_namespace() -> None:
    text = raised(
        "ValueError", "Failed to look up actor with name 'rollout_0'. This could because 1. You are trying ..."
    )
    found = finding(check, text)
    assert "'rollout_0'" in found.message
    assert any("namespace" in fix.title for fix in found.fixes)


def test_as_many_actors_as_expected_are_no_fault() -> None:
    assert (
        findings(check, raised("AssertionError", "has 8 actors, but vllm_dp_size: 8 * vllm_tp_size: 1 = 8 is expected"))
        == []
    )
