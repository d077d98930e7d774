"""RLD601: actors that another Ray instance or namespace holds."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from rldoctor_checks.processes.ray_actors_invisible import check

from rldoctor.api import Case, Grade, Outcome
from rldoctor.catalogue.probe import Job, Request
from rldoctor.judge import judge_one
from rldoctor.probes.ray_lookup import ray_lookup
from rldoctor.probes.runner import run_job
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


ASYNCHRONOUS: dict[str, Any] = {
    "rollout__async_engine": True, "rollout__backend": "vllm", "placement__nodes": 1, "ray__engine_joins": True,
}  # fmt: skip
ELSEWHERE = {**ASYNCHRONOUS, "ray__engine_joins": False}


def test_an_engine_that_joins_ray_without_an_address() -> None:
    # https://github.com/verl-project/verl/issues/1365
    found = launches.finding(check, "verl", version="0.4.1", **ASYNCHRONOUS)
    assert "none of the rollout actors" in found.message
    assert "ray start --head" in found.fixes[0].commands


def test_a_launch_that_names_its_cluster() -> None:
    for setting in ({"env__RAY_ADDRESS": "auto"}, {"ray__address": "http://127.0.0.1:8265"}, {"ray__started": True}):
        assert launches.quiet(check, "verl", version="0.4.1", **ASYNCHRONOUS, **setting)
    assert launches.quiet(check, "verl", version="0.4.1", **{**ASYNCHRONOUS, "placement__nodes": 2})


LAUNCH = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.{} trainer.n_gpus_per_node=1\n"


@pytest.mark.parametrize(
    ("version", "before", "options", "joins"),
    [
        ("0.4.1", "", "mode=async", True),
        ("0.5.0", "", "mode=async", False),
        ("0.5.0", "export VERL_VLLM_DISTRIBUTED_BACKEND=ray\n", "mode=async", True),
        ("0.6.0", "export VERL_VLLM_DISTRIBUTED_BACKEND=ray\n", "mode=async", False),
        ("0.4.1", "", "mode=sync", False),
        ("0.4.1", "", "mode=async actor_rollout_ref.rollout.name=sglang", False),
    ],
)
def test_other_releases_and_executors(tmp_path: Path, version: str, before: str, options: str, joins: bool) -> None:
    file = launches.LaunchFile(tmp_path, before + LAUNCH.format(options), {"verl": version, "vllm": "0.8.5"})
    assert bool(file.findings(check)) is joins


def test_an_engine_that_does_not_join_passes() -> None:
    assert launches.judged(check, "verl", version="0.6.0", **ELSEWHERE).outcome is Outcome.PASS


def looked_up(found: int, address: str = "here:2") -> Case:
    """A launch, and what the probe recorded: so many actors without an address."""
    ways = {
        "no address": {"address": address, "found": found},
        "address": {"address": "here:1", "found": 2},
        "no namespace": {"address": "here:1", "found": 0},
    }
    records = {"version": "2.60.0", "made": {"actors": 2, "address": "here:1"}, "ways": ways}
    case = launches.launch("verl", "0.4.1", **ASYNCHRONOUS)
    return replace(case, observations={"ray_lookup": {"actors": {"ended": "done", "records": records}}})


def test_the_look_up_that_finds_none_is_reproduced_and_its_fix_proven() -> None:
    result = judge_one(check, looked_up(0))
    (found,) = result.findings
    assert found.grade is Grade.REPRODUCED
    assert "starts a Ray of its own and finds 0 of 2 actors" in found.message
    assert found.fixes[0].proven == "looked up again with RAY_ADDRESS: 2 of 2 actors found"
    assert "no namespace: joins the trainer's Ray and finds 0 of 2 actors" in [one.text for one in found.evidence]


def test_a_ray_that_is_found_without_an_address_passes() -> None:
    assert judge_one(check, looked_up(2, "here:1")).outcome is Outcome.PASS


@pytest.mark.ray
def test_a_real_ray(python_with_ray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = set(psutil.pids())
    folder = Path(tempfile.mkdtemp(prefix="rl-", dir="/tmp"))  # paths of sockets are short
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    job = Job(arguments={"actors": 2, "seconds": 90.0}, time_limit=300.0)
    (folder / "home").mkdir()
    mine = {**os.environ, "HOME": str(folder / "home")}
    result = run_job(ray_lookup.child, job, "ray_lookup", Request(python=python_with_ray, environ=mine))
    # A Ray that is started asks for a token; the one that it would make stays out of the user's home.
    assert not list((folder / "home").iterdir())
    (folder / "home").rmdir()
    assert result.ended == "done", result
    ways = result.records["ways"]
    assert {way: one["found"] for way, one in ways.items()} == {"no address": 0, "address": 2, "no namespace": 0}
    ours = result.records["made"]["address"]
    assert ways["no address"]["address"] != ours == ways["address"]["address"] == ways["no namespace"]["address"]
    after = [process for process in psutil.process_iter(["cmdline"]) if process.pid not in left]
    assert not [process for process in after if str(folder) in " ".join(process.info["cmdline"] or [])]
    assert sorted(path.name for path in folder.glob("*/*")) == ["log.txt", "owner"]  # of Ray's own folder, nothing
    shutil.rmtree(folder)


def test_the_fix_in_verls_words(tmp_path: Path) -> None:
    text = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.mode=async trainer.n_gpus_per_node=1\n"
    file = launches.LaunchFile(tmp_path, text, {"verl": "0.4.1", "vllm": "0.8.5"})
    (found,) = file.findings(check)
    spelled = [edit.spelled for fix in found.fixes for edit in fix.edits]
    assert spelled == ["actor_rollout_ref.rollout.mode=sync"]
