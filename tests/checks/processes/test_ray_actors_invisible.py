"""RLD601: actors that another Ray instance or namespace holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldoctor_checks.processes.ray_actors_invisible import check

from rldoctor.api import Outcome
from tests.checks import launches
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


ASYNCHRONOUS: dict[str, Any] = {"rollout__async_engine": True, "rollout__backend": "vllm", "placement__nodes": 1}


def test_an_engine_that_joins_ray_without_an_address() -> None:
    # https://github.com/verl-project/verl/issues/1365
    found = launches.finding(check, "verl", version="0.4.1", **ASYNCHRONOUS)
    assert "0 of the rollout actors" in found.message
    assert "ray start --head" in found.fixes[0].commands


def test_a_launch_that_names_its_cluster() -> None:
    for setting in ({"env__RAY_ADDRESS": "auto"}, {"ray__address": "http://127.0.0.1:8265"}, {"ray__started": True}):
        assert launches.quiet(check, "verl", version="0.4.1", **ASYNCHRONOUS, **setting)
    assert launches.quiet(check, "verl", version="0.4.1", **{**ASYNCHRONOUS, "placement__nodes": 2})


def test_other_releases_and_executors() -> None:
    assert launches.judged(check, "verl", version="0.6.0", **ASYNCHRONOUS).outcome is Outcome.PASS
    assert launches.quiet(check, "verl", version="0.5.0", **ASYNCHRONOUS)
    ray: dict[str, Any] = {"env__VERL_VLLM_DISTRIBUTED_BACKEND": "ray"}
    assert launches.finding(check, "verl", version="0.5.0", **ASYNCHRONOUS, **ray)
    assert launches.quiet(check, "verl", version="0.4.1", **{**ASYNCHRONOUS, "rollout__backend": "sglang"})
    assert launches.quiet(check, "verl", version="0.4.1", rollout__async_engine=False)


def test_the_fix_in_verls_words(tmp_path: Path) -> None:
    text = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.mode=async trainer.n_gpus_per_node=1\n"
    file = launches.LaunchFile(tmp_path, text, {"verl": "0.4.1", "vllm": "0.8.5"})
    (found,) = file.findings(check)
    spelled = [edit.spelled for fix in found.fixes for edit in fix.edits]
    assert spelled == ["actor_rollout_ref.rollout.mode=sync"]
