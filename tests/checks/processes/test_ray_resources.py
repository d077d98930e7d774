"""RLD602: requests that the Ray cluster cannot fulfil."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.declared.devices import is_of_this_machine
from rldoctor_checks.processes.ray_resources import check

from rldoctor.api import Finding, Grade, Outcome, Severity
from rldoctor.case import Case, Unknown
from rldoctor.frameworks.groups import driver, placement_group
from rldoctor.judge import judge_one
from rldoctor.logs.triage import triage_text
from tests.checks import launches
from tests.checks.launches import LaunchFile
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY

HERE = (
    "auto",
    "local",
    "localhost",
    "localhost:6379",
    "127.0.0.1:6379",
    "ray://localhost:10001",
    "http://[::1]:8265",
    "::1",
)
ELSEWHERE = ("autoscaled-head:6379", "ray://head.cluster.local:10001", "http://10.0.0.5:8265", "[fd00::1]:6379", None)
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


VERL: dict[str, Any] = {"process__launcher": "ray", "placement__nodes": 1}
ROLES = {"actor": 4, "reference": 4, "engine": 4}


def test_more_devices_than_the_cluster_has() -> None:
    # https://github.com/verl-project/verl/issues/2515
    two = {**VERL, "placement__nodes": 2, "placement__gpus_per_node": 8, "ray__gpus_needed": 16}
    found = launches.finding(check, "verl", gpus=8, nodes=1, **two)
    assert "asks Ray for 16 GPUs, and the cluster has 8" in found.message
    assert [(edit.option, edit.value) for fix in found.fixes for edit in fix.edits] == [("placement.nodes", 1)]
    assert launches.judged(check, "verl", gpus=8, nodes=2, **two).outcome is Outcome.PASS
    assert launches.judged(check, "verl", gpus=8, **two).outcome is Outcome.NOT_CHECKED


def test_engines_with_nodes_of_their_own_may_stand_on_others() -> None:
    apart = {**VERL, "placement__gpus_per_node": 8, "placement__engine_nodes": 1, "placement__mode": "async"}
    two = {**apart, "ray__gpus_needed": 16}
    assert launches.judged(check, "verl", gpus=8, **two).outcome is Outcome.NOT_CHECKED
    assert "the cluster has 8" in launches.finding(check, "verl", gpus=8, nodes=1, **two).message
    one = {**apart, "placement__gpus_per_node": 4, "ray__gpus_needed": 8}
    assert launches.judged(check, "verl", gpus=8, **one).outcome is Outcome.PASS


def test_a_launch_that_tells_devices_and_no_nodes() -> None:
    sixteen = {"process__launcher": "ray", "placement__gpus_per_node": 8, "ray__gpus_needed": 16}
    assert launches.judged(check, "ROLL", gpus=8, **sixteen).outcome is Outcome.NOT_CHECKED
    assert "the cluster has 8" in launches.finding(check, "ROLL", gpus=8, nodes=1, **sixteen).message
    assert launches.judged(check, "ROLL", gpus=8, **sixteen | {"ray__gpus_needed": 8}).outcome is Outcome.PASS


def test_more_devices_than_a_node_has() -> None:
    sixteen = {**VERL, "placement__gpus_per_node": 16, "ray__gpus_needed": 16}
    assert (
        "16 GPUs on one node, and a node has 8" in launches.finding(check, "verl", gpus=8, nodes=4, **sixteen).message
    )
    hidden = {**VERL, "placement__gpus_per_node": 8, "ray__gpus_needed": 8, "env__CUDA_VISIBLE_DEVICES": "0,1"}
    assert "a node has 2" in launches.finding(check, "verl", gpus=8, **hidden).message
    # A cluster that runs already does not see what this file sets.
    assert launches.quiet(check, "verl", gpus=8, nodes=1, **hidden, ray__address="http://127.0.0.1:8265")


SKYRL = (
    "uv run -m skyrl.train.entrypoints.main_base trainer.placement.colocate_all=%s generator.inference_engine."
    "num_engines=16 trainer.placement.policy_num_gpus_per_node=16 trainer.placement.ref_num_gpus_per_node=16 "
    "trainer.policy.model.path=m\n"
)


@pytest.mark.parametrize(("colocated", "outcome"), [("true", Outcome.NOT_CHECKED), ("false", Outcome.FINDINGS)])
def test_bundles_that_ray_may_spread_need_no_node_that_holds_all(
    colocated: str, outcome: Outcome, tmp_path: Path
) -> None:
    # Colocated models take bundles of one device; one apart takes a bundle for each of its nodes.
    launch = LaunchFile(tmp_path, SKYRL % colocated, {"skyrl": "0.3.0"}, gpus=8)
    (case,) = launch.cases()
    assert judge_one(check, case).outcome is outcome
    if outcome is Outcome.FINDINGS:
        assert "16 GPUs on one node, and a node has 8" in launch.findings(check)[0].message


def test_spread_bundles_are_held_against_all_nodes(tmp_path: Path) -> None:
    (found,) = LaunchFile(tmp_path, SKYRL % "true", {"skyrl": "0.3.0"}, gpus=8, nodes=1).findings(check)
    assert "and the cluster has 8" in found.message
    assert LaunchFile(tmp_path, SKYRL % "true", {"skyrl": "0.3.0"}, gpus=8, nodes=2).findings(check) == []


def test_devices_that_a_variable_hides_and_a_share_of_a_node() -> None:
    hidden = {**VERL, "placement__gpus_per_node": 8, "ray__gpus_needed": 8, "env__CUDA_VISIBLE_DEVICES": "0,1"}
    found = launches.finding(check, "verl", gpus=8, **hidden)
    assert {"env.CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"} in [
        {edit.option: edit.value for edit in fix.edits} for fix in found.fixes
    ]
    parts = {**VERL, "placement__gpus_per_node": 4, "placement__engine_gpus_per_node": 8, "ray__gpus_needed": 12}
    found = launches.finding(check, "verl", gpus=8, nodes=1, **parts)
    assert [(edit.option, edit.value) for fix in found.fixes for edit in fix.edits] == [
        ("placement.engine_gpus_per_node", 4)
    ]


def test_models_that_share_take_the_devices_of_a_node_together(tmp_path: Path) -> None:
    text = (
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 --ref_num_nodes 1 "
        "--ref_num_gpus_per_node 8 --vllm_num_engines 4 --vllm_tensor_parallel_size 2 --colocate_all_models "
        "--pretrain m --remote_rm_url r.py --advantage_estimator group_norm --init_kl_coef 0.01\n"
    )
    (finding,) = LaunchFile(tmp_path, text, {"openrlhf": "0.9.3"}, gpus=4, nodes=1).findings(check)
    assert "with as many for reference" in finding.fixes[0].title
    assert {edit.option: edit.value for edit in finding.fixes[0].edits} == {
        "placement.gpus_per_node": 4,
        "placement.engines": 2,
    }


def test_trainer_and_engines_share_out_what_there_is() -> None:
    plan: dict[str, Any] = {"process__launcher": "ray", "ray__gpus_needed": 8, "placement__gpus_per_node": 4}
    plan |= {"placement__roles": {"actor": 4, "engine": 4}, "placement__engine_gpus": 4, "placement__engines": 4}
    found = launches.finding(check, "SkyRL", gpus=4, nodes=1, **plan)
    assert {"placement.gpus_per_node": 2, "placement.engines": 2} in [
        {edit.option: edit.value for edit in fix.edits} for fix in found.fixes
    ]


def test_roles_that_share_are_counted_once() -> None:
    roles = {"actor": 4, "reference": 4, "engine": 8}
    shared: dict[str, Any] = {"placement__roles": roles, "placement__colocated_roles": ["actor", "reference"]}
    engines: dict[str, Any] = {"placement__engines": 4, "engine__tensor_parallel_size": 2}
    asked = {"process__launcher": "ray", "ray__gpus_needed": 12, **shared, **engines}
    found = launches.finding(check, "OpenRLHF", version="0.9.8", gpus=8, nodes=1, **asked)
    assert "asks Ray for 12 GPUs (actor with reference 4 + engine 8)" in found.message
    assert [(edit.option, edit.value) for fix in found.fixes for edit in fix.edits] == [("placement.engines", 2)]


def test_roles_that_do_not_share() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/613
    plan: dict[str, Any] = {"process__launcher": "ray", "ray__gpus_needed": 12, "placement__roles": ROLES}
    found = launches.finding(check, "OpenRLHF", version="0.8.5", gpus=8, nodes=1, **plan)
    assert "12 GPUs (actor 4 + reference 4 + engine 4)" in found.message
    assert found.fixes[0].edits[0].value == "colocate"
    assert launches.quiet(check, "OpenRLHF", version="0.8.5", gpus=8, nodes=2, **plan)


def test_another_machines_cluster_is_not_judged() -> None:
    plan = {**VERL, "placement__gpus_per_node": 8, "ray__gpus_needed": 8, "ray__address": "http://10.0.0.5:8265"}
    assert launches.judged(check, "verl", gpus=1, ports=(), **plan).outcome is Outcome.NOT_CHECKED
    assert launches.finding(check, "verl", gpus=1, nodes=1, **plan)


def test_more_engine_ranks_than_bundles() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/pull/728
    plan: dict[str, Any] = {
        "placement__mode": "colocate",
        "placement__trainer_gpus": 8,
        "engine__tensor_parallel_size": 2,
    }
    found = launches.finding(check, "OpenRLHF", version="0.5.9", **plan, placement__engines=8)
    assert "need 16 bundles" in found.message and found.fixes[0].edits[0].value == 4
    assert launches.quiet(check, "OpenRLHF", version="0.5.9", **plan, placement__engines=4)
    fewer = launches.finding(check, "OpenRLHF", version="0.5.9", **plan, placement__engines=2)
    assert "need 4 bundles" in fewer.message


@pytest.mark.parametrize(("sizes", "engines"), [("", 4), ("tensor_parallel_size=2 ", 2)])
def test_colocated_engines_take_the_trainers_devices(sizes: str, engines: int, tmp_path: Path) -> None:
    prefix = "generator.inference_engine."
    text = (
        "uv run -m skyrl.train.entrypoints.main_base trainer.placement.colocate_all=true "
        "trainer.placement.policy_num_gpus_per_node=4 trainer.policy.model.path=m "
        f"{prefix}num_engines=3 {''.join(prefix + size + ' ' for size in sizes.split())}\n"
    )
    file = LaunchFile(tmp_path, text, {"skyrl": "0.3.0"})
    assert [found.severity for found in file.findings(check)] == [Severity.ERROR]
    assert f"{prefix}num_engines={engines}" in file.mend(check)
    assert file.findings(check) == []


def test_the_fix_in_openrlhfs_words(tmp_path: Path) -> None:
    text = (
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 --vllm_num_engines 8 "
        "\\\n"
        "    --vllm_tensor_parallel_size 2 --colocate_all_models --pretrain m\n"
    )
    file = launches.LaunchFile(tmp_path, text, {"openrlhf": "0.8.5", "vllm": "0.9.1"})
    assert len(file.findings(check)) == 1
    assert "--vllm_num_engines 4" in file.mend(check)
    assert file.findings(check) == []


@pytest.mark.parametrize(("offered", "short"), [(4, True), (8, False), (0, False)])
def test_a_node_has_what_ray_was_started_with(offered: int, short: bool, tmp_path: Path) -> None:
    text = (
        f"ray start --head --num-gpus {offered}\n"
        'ray job submit --address="http://127.0.0.1:8265" -- python3 -m verl.trainer.main_ppo '
        "trainer.n_gpus_per_node=8 trainer.nnodes=1 actor_rollout_ref.model.path=m\n"
    )
    found = LaunchFile(tmp_path, text, {"verl": "0.7.1"}, gpus=8).findings(check)
    assert [finding.message for finding in found if "a node has 4" in finding.message] == [f.message for f in found]
    assert bool(found) == short
    edits = [edit for finding in found for fix in finding.fixes for edit in fix.edits]
    assert [(edit.spelled, edit.line) for edit in edits if edit.option == "ray.num_gpus"] == [
        ("--num-gpus 8", 1)
    ] * short


def test_groups_that_frameworks_give_up() -> None:
    text = "Not enough GPUs available. Requested 16 GPUs, but only 8 are available in the cluster."
    assert "16 asked for, 8 there" in finding(check, raised("ResourceInsufficientError", text)).message
    text = "Cannot provide a placement group requiring 4 GPUs (placement_group_specs=[...]) within 1800 seconds."
    assert "of 4 bundles" in finding(check, raised("ValueError", text)).message
    text = "actor_num_nodes * actor_num_gpus_per_node must be equal to vllm_num_engines * ..., got 8 and 4"
    assert "4 for engines, 8 of the actor" in finding(check, raised("AssertionError", text)).message


def test_an_engine_built_on_a_node_without_its_workers() -> None:
    # https://github.com/vllm-project/vllm/issues/12983, in vLLM's earlier log format
    log = "".join(
        f"ERROR 02-09 02:31:11 engine.py:389] {line}\n"
        for line in raised(
            "ValueError",
            "Ray does not allocate any GPUs on the driver node. Consider adjusting the Ray placement group.",
        ).splitlines()
    )
    assert "no worker of the engine on the node" in finding(check, log).message


MAIN_PPO = "python3 -m verl.trainer.main_ppo trainer.nnodes={nodes} trainer.n_gpus_per_node={each}\n"
SBATCH = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\nsrun --overlap ray start --address=$HEAD --block &\n"


def asked_of_slurm(folder: Path, text: str, **more: Any) -> list[Finding]:
    return LaunchFile(folder, text, {"verl": "0.7.1", "ray": "2.49.0"}, **more).findings(check)


@pytest.mark.parametrize(
    ("nodes", "each", "said"),
    [(4, 8, "32 GPUs, and the cluster has 16"), (1, 16, "16 GPUs on one node, and a node has 8")],
)
def test_more_than_the_allocation_has(nodes: int, each: int, said: str, tmp_path: Path) -> None:
    # The machine that judges is another one: a login node without devices, or with some of its own.
    for gpus in (None, 1, 16):
        (found,) = asked_of_slurm(tmp_path, SBATCH + MAIN_PPO.format(nodes=nodes, each=each), gpus=gpus)
        assert said in found.message
        assert any(item.line == 3 and "--gres" in item.text for item in found.evidence)


def test_more_nodes_are_asked_for_in_slurms_words(tmp_path: Path) -> None:
    (found,) = asked_of_slurm(tmp_path, SBATCH + MAIN_PPO.format(nodes=4, each=8))
    assert ("#SBATCH --nodes=4",) in [fix.commands for fix in found.fixes]


@pytest.mark.parametrize(
    "text",
    [
        SBATCH + MAIN_PPO.format(nodes=2, each=8),
        SBATCH + MAIN_PPO.format(nodes=2, each=4),
        SBATCH.replace("--nodes=2", "--nodes=2-8") + MAIN_PPO.format(nodes=4, each=8),
        SBATCH.replace("--gres=gpu:8", "--exclusive") + MAIN_PPO.format(nodes=4, each=8),
    ],
)
def test_an_allocation_that_holds_the_run_or_is_not_known(text: str, tmp_path: Path) -> None:
    assert asked_of_slurm(tmp_path, text) == []


def test_the_pods_of_a_ray_cluster(tmp_path: Path) -> None:
    text = (
        f"apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: {MAIN_PPO}  rayClusterSpec:\n"
        "    headGroupSpec:\n      template: {{spec: {{containers: [{{name: head}}]}}}}\n"
        "    workerGroupSpecs:\n    - replicas: 2\n      template:\n        spec:\n          containers:\n"
        "          - name: worker\n            resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
    )
    (found,) = asked_of_slurm(tmp_path, text.format(nodes=4, each=8), name="job.yaml")
    assert "32 GPUs, and the cluster has 16" in found.message
    assert asked_of_slurm(tmp_path, text.format(nodes=2, each=8), name="job.yaml") == []


def test_pods_that_hold_enough_in_all_and_not_on_a_node(tmp_path: Path) -> None:
    pods = (
        "    - replicas: {count}\n      template:\n        spec:\n          containers:\n"
        "          - {{name: worker, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}\n"
    )
    text = (
        f"apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: {MAIN_PPO.format(nodes=2, each=8)}"
        "  rayClusterSpec:\n    headGroupSpec:\n      template: {spec: {containers: [{name: head}]}}\n"
        "    workerGroupSpecs:\n"
    )
    uneven = text + pods.format(count=1, gpus=8) + pods.format(count=2, gpus=4)
    (found,) = asked_of_slurm(tmp_path, uneven, name="job.yaml")
    assert "8 GPUs on one node, 2 times, and 1 of the cluster's nodes can hold 8" in found.message
    assert asked_of_slurm(tmp_path, text + pods.format(count=2, gpus=8), name="job.yaml") == []


def test_an_allocation_answers_where_the_case_names_no_nodes(tmp_path: Path) -> None:
    (case,) = LaunchFile(tmp_path, SBATCH + MAIN_PPO.format(nodes=2, each=8), {"verl": "0.7.1"}).cases()
    result = judge_one(check, replace(case, unknown={"nodes": Unknown(reason="not told")}))
    assert (result.outcome, result.findings) == (Outcome.PASS, ())
    assert result.reason is not None and "16 of 16 GPUs" in result.reason


POOLS = {**VERL, "placement__gpus_per_node": 8, "placement__nodes": 2}
BIG, SMALL = {"GPU": 8.0, "CPU": 64.0}, {"GPU": 8.0, "CPU": 16.0}


def running(
    *nodes: dict[str, float], free: list[dict[str, float]] | None = None, cores: int = 48, **records: Any
) -> Case:
    """A launch of two nodes of eight GPUs, and a running cluster of these nodes."""
    groups = [placement_group("STRICT_PACK", 8, cpus=cores / 16, count=2)]
    case = launches.launch("verl", "0.7.1", ray__gpus_needed=16, ray__groups=groups, **POOLS)
    rows = [
        {"alive": True, "address": "10.0.0.1", "resources": node, "free": left}
        for node, left in zip(nodes, free or nodes, strict=True)
    ]
    said = {"address": "head:6379", "nodes": rows, "actors": [], "available": {}, "total": {}, **records}
    return replace(case, observations={"ray_cluster": {"cluster": {"ended": "done", "records": said}}})


def test_a_launch_finds_its_place_on_the_cluster_that_runs() -> None:
    result = judge_one(check, running({"CPU": 4.0}, BIG, BIG))
    assert result.outcome is Outcome.PASS
    assert "2 placement groups of 24 CPU, 8 GPU" in (result.reason or "")


def test_cores_that_no_node_of_the_running_cluster_has() -> None:
    (found,) = judge_one(check, running(SMALL, SMALL)).findings
    assert found.severity is Severity.ERROR and found.grade is Grade.OBSERVED
    assert "can never hold that: no node has the 24 CPU, 8 GPU (a node has at most 16 CPU, 8 GPU)" in found.message
    assert found.evidence[-1].text == "2 nodes (10.0.0.1, 10.0.0.1) have 16 CPU, 8 GPU, free 16 CPU, 8 GPU: 8 CPU short"
    assert "--num-cpus=24" in found.fixes[0].commands[0]


def test_one_node_too_few_on_the_running_cluster() -> None:
    (found,) = judge_one(check, running(BIG, {"GPU": 7.0, "CPU": 64.0})).findings
    assert "the 2 nodes of the cluster at head:6379 can never hold that" in found.message
    (grows,) = judge_one(check, running(BIG, grows=True)).findings
    assert grows.severity is Severity.WARNING and "unless the autoscaler" in grows.message


def test_a_core_that_the_loop_takes_from_the_node_of_the_group() -> None:
    plain = running({"GPU": 8.0, "CPU": 24.0}, cores=48)
    groups = [driver(), placement_group("STRICT_PACK", 8, cpus=3)]
    assert plain.plan is not None
    settings = {**plain.plan.settings, **launches.settings(ray__groups=groups)}
    (found,) = judge_one(check, replace(plain, plan=replace(plain.plan, settings=settings))).findings
    assert found.severity is Severity.ERROR
    assert "room for 1 placement group of 24 CPU, 8 GPU, each on one node, and not beside 1 CPU for its own loop" in (
        found.message
    )


def test_a_node_that_has_not_told_what_is_free_or_is_drained() -> None:
    case = running(BIG, BIG, BIG)
    records = case.observations["ray_cluster"]["cluster"]["records"]
    records["nodes"][1]["free"] = None
    result = judge_one(check, case)
    assert result.outcome is Outcome.PASS and "were they empty" in (result.reason or "")
    records["nodes"][1]["draining"] = records["nodes"][2]["draining"] = True
    (found,) = judge_one(check, case).findings
    assert "the 1 node of the cluster at head:6379 can never hold that: there is room for 1 of the 2" in found.message


def test_what_others_hold_is_a_warning_and_what_ended_jobs_left_is_named() -> None:
    actor = {"kind": "WorkerDict", "state": "ALIVE", "name": "w0", "namespace": "old", "holds": {"GPU": 1.0}}
    actors = [{**actor, "job": "01000000"}, {**actor, "job": "02000000", "name": ""}]
    left = [BIG, {"GPU": 6.0, "CPU": 62.0}]
    (found,) = judge_one(check, running(BIG, BIG, free=left, actors=actors, jobs=["02000000"])).findings
    assert found.severity is Severity.WARNING
    assert "1 actor of jobs that have ended holds a part of it" in found.message
    assert 'namespace="old"); ray.kill(ray.get_actor("w0"))' in found.fixes[0].commands[0]


def test_a_group_that_an_ended_job_has_left_is_named_and_can_be_removed() -> None:
    group = {"name": "old_pool", "state": "CREATED", "strategy": "PACK", "bundles": [{"GPU": 2.0}], "job": "01000000"}
    left = [BIG, {"GPU": 6.0, "CPU": 62.0}]
    kept = {**group, "namespace": "old"}
    (found,) = judge_one(check, running(BIG, BIG, free=left, bundles=[kept], jobs=["02000000"])).findings
    assert "1 placement group of jobs that have ended holds a part of it" in found.message
    assert 'namespace="old")' in found.fixes[0].commands[0]
    assert 'get_placement_group("old_pool")' in found.fixes[0].commands[0]
    (found,) = judge_one(check, running(BIG, BIG, free=left, bundles=[group], jobs=["01000000"])).findings
    assert "have ended" not in found.message and found.fixes[0].commands[0] == "ray status -v"


def test_an_object_store_that_is_full_before_the_run() -> None:
    store = {**BIG, "object_store_memory": 10 * 1024.0**3}
    (found,) = judge_one(check, running(store, store, free=[store, {**store, "object_store_memory": 0.2e9}])).findings
    assert found.severity is Severity.WARNING and "most of the object store of 1 node" in found.message
    assert found.evidence[0].text.startswith("node 10.0.0.1 has free 0.2 GiB object_store_memory of 10.0 GiB")
    assert judge_one(check, running(store, store, free=[store, {**store, "object_store_memory": 5e9}])).findings == ()


def test_a_cluster_that_does_not_tell_or_is_the_launchs_own() -> None:
    silent = {"cluster": {"ended": "timed-out", "records": {}}}
    assert judge_one(check, replace(running(BIG), observations={"ray_cluster": silent})).outcome is Outcome.NOT_CHECKED
    own = running({"CPU": 1.0})
    assert own.plan is not None
    settings = {**own.plan.settings, **launches.settings(ray__started=True)}
    assert judge_one(check, replace(own, plan=replace(own.plan, settings=settings))).findings == ()


def test_a_node_that_has_lost_a_device_admits_no_pod() -> None:
    event = (
        "  Warning  UnexpectedAdmissionError  5s  kubelet  Allocate failed due to requested number of devices "
        "unavailable for nvidia.com/gpu. Requested: 8, Available: 7, which is unexpected\n"
    )
    assert finding(check, event).message.startswith("the node has 7 nvidia.com/gpu left, and the pod asks for 8")
    assert findings(check, event + HEALTHY) == []


def test_a_pod_that_no_node_takes() -> None:
    event = (
        "  Warning  FailedScheduling  40s  default-scheduler  0/3 nodes are available: 3 node(s) didn't match Pod's "
        "node affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.\n"
    )
    assert finding(check, event).message == (
        "none of the 3 nodes takes the pod: 3 node(s) didn't match Pod's node affinity/selector"
    )
    assert findings(check, event + HEALTHY) == []


def test_a_pod_that_waited_for_its_node_has_it() -> None:
    waits = "9m  Warning  FailedScheduling  pod/{}  0/8 nodes are available: 8 Insufficient nvidia.com/gpu.\n"
    taken = "7m  Normal  Scheduled  pod/{}  Successfully assigned rl/grpo to gpu-07\n"
    for described in ("", HEALTHY):
        assert findings(check, described + waits.format("grpo-0") + taken.format("grpo-0")) == []
    assert finding(check, waits.format("grpo-1") + taken.format("grpo-0")).message.startswith("no node of the 8 has")


_TABLE = """======== Autoscaler status: 2025-09-23 01:17:18.277326 ========
Resources
---------------------------------------------------------------
Usage:
 0.0/64.0 CPU
 0.0/4.0 GPU
 0B/2.33GiB memory

Demands:
 {demand}
"""


def test_the_table_of_a_cluster_too_small_for_a_group() -> None:
    text = _TABLE.format(demand="{'GPU': 1.0, 'CPU': 1.0} * 8 (STRICT_PACK): 1+ pending placement groups")
    assert "asks for 8 GPUs, and the cluster has 4" in finding(check, text).message


@pytest.mark.parametrize(
    "demand",
    ["(no resource demands)", "{'GPU': 1.0} * 4 (PACK): 1+ pending placement groups", "{'CPU': 1.0}: 1+ pending tasks"],
)
def test_the_table_of_a_cluster_that_may_yet_serve(demand: str) -> None:
    assert findings(check, _TABLE.format(demand=demand)) == []


def test_the_autoscaler_has_no_type_of_node() -> None:
    # https://github.com/ray-project/ray/issues/27910
    said = (
        "WARNING resource_demand_scheduler.py:839 -- The autoscaler could not find a node type to satisfy the request: "
    )
    found = finding(check, f"{said}[{{'CPU': 1.0}}, {{'CPU': 1.0}}].\n")
    assert found.severity is Severity.WARNING and "{'CPU': 1.0}" in found.message
    # It got its node: steps follow.
    assert findings(check, f"{said}[{{'GPU': 1.0}}].\n" + HEALTHY.rpartition("\n{'train_runtime'")[0]) == []
    # The group's own resource is there once the group is: https://github.com/ray-project/ray/issues/20968
    assert findings(check, f"{said}[{{'bundle_group_f603e2de7cd8': 0.001}}]. If this request is related\n") == []


@pytest.mark.parametrize("address", [*HERE, *ELSEWHERE])
def test_whose_address_it_is(address: str | None) -> None:
    assert is_of_this_machine(address) is (address in HERE)
