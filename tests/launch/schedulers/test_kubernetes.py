"""Manifests of Kubernetes: the pods and devices that they ask for, and what their containers run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rldoctor.errors import InputError
from rldoctor.launch.recognise import read
from rldoctor.launch.schedulers import kubernetes
from rldoctor.plan.model import RolloutPlan

RUN = ["torchrun", "--nnodes=2", "--nproc_per_node=8", "train.py"]
VERL = "python3 -m verl.trainer.main_ppo trainer.nnodes=2 trainer.n_gpus_per_node=8"


def template(gpus: object = 8, command: object = None, **container: object) -> dict[str, object]:
    """A pod with one container."""
    limits = {} if gpus is None else {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
    run = {} if command is None else {"command": command}
    return {"spec": {"containers": [{"name": "main", "image": "x", **run, **limits, **container}]}}


def plan(folder: Path, kind: str, spec: Mapping[str, Any], version: str = "v1") -> RolloutPlan:
    (folder / "job.yaml").write_text(
        yaml.safe_dump({"apiVersion": version, "kind": kind, "spec": spec}, sort_keys=False)
    )
    (found,) = read(folder / "job.yaml")
    return found


KINDS: dict[str, dict[str, Any]] = {
    "PyTorchJob": {"pytorchReplicaSpecs": {
        "Master": {"replicas": 1, "template": template(8, RUN)},
        "Worker": {"replicas": 1, "template": template("8", RUN)}}},
    "MPIJob": {"mpiReplicaSpecs": {
        "Launcher": {"replicas": 1, "template": template(None, RUN)},
        "Worker": {"replicas": 2, "template": template()}}},
    "Job": {"parallelism": 2, "completions": 2, "template": template(8, RUN)},
    "JobSet": {"replicatedJobs": [
        {"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 2, "template": template(8, RUN)}}}]},
    "LeaderWorkerSet": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template(8, RUN)}},
    "TrainJob": {"trainer": {"numNodes": 2, "command": RUN, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}},
    "RayJob": {"entrypoint": VERL, "rayClusterSpec": {
        "headGroupSpec": {"rayStartParams": {}, "template": template()},
        "workerGroupSpecs": [{"replicas": 1, "template": template()}]}},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_two_pods_of_eight_devices(kind: str, tmp_path: Path) -> None:
    found = plan(tmp_path, kind, KINDS[kind])
    assert [found.value(f"scheduler.{name}") for name in ("name", "nodes", "gpus_per_node", "gpus")] == [
        "kubernetes", 2, 8, 16,
    ]  # fmt: skip


def test_a_volcano_job_counts_tasks(tmp_path: Path) -> None:
    tasks = [{"name": "worker", "replicas": 3, "template": template(4, RUN)}]
    found = plan(tmp_path, "Job", {"minAvailable": 3, "tasks": tasks}, "batch.volcano.sh/v1alpha1")
    assert (found.value("scheduler.nodes"), found.value("scheduler.gpus")) == (3, 12)


def test_a_ray_cluster_of_unequal_pods(tmp_path: Path) -> None:
    workers = [{"replicas": 2, "template": template(8)}, {"replicas": 1, "numOfHosts": 2, "template": template(4)}]
    head = {"rayStartParams": {"num-gpus": "0"}, "template": template(1)}
    spec = {"entrypoint": VERL, "rayClusterSpec": {"headGroupSpec": head, "workerGroupSpecs": workers}}
    found = plan(tmp_path, "RayJob", spec)
    assert found.value("scheduler.shapes") == [0, 8, 8, 4, 4]
    assert found.value("scheduler.gpus") == 24
    assert found.value("scheduler.gpus_per_node") is None


def test_a_group_that_grows_counts_to_its_largest(tmp_path: Path) -> None:
    workers = [{"replicas": 1, "minReplicas": 1, "maxReplicas": 4, "template": template(8)}]
    head = {"template": template(None)}
    cluster = {"enableInTreeAutoscaling": True, "headGroupSpec": head, "workerGroupSpecs": workers}
    assert plan(tmp_path, "RayJob", {"entrypoint": VERL, "rayClusterSpec": cluster}).value("scheduler.gpus") == 32
    del workers[0]["maxReplicas"]
    assert plan(tmp_path, "RayJob", {"entrypoint": VERL, "rayClusterSpec": cluster}).value("scheduler.gpus") is None


def test_pods_whose_devices_are_not_named_are_unknown(tmp_path: Path) -> None:
    found = plan(tmp_path, "Job", {"parallelism": 2, "template": template(None, RUN)})
    assert found.value("scheduler.nodes") == 2
    assert found.get("scheduler.gpus_per_node") is None and found.get("scheduler.visible") is None


def test_a_script_inside_a_manifest_is_read_with_its_lines_and_variables(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n---\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n"
        "  pytorchReplicaSpecs:\n    Worker:\n      replicas: 4\n"
        "      template:\n        spec:\n          containers:\n"
        "          - name: pytorch\n            env: [{name: PORT, value: '29511'}]\n            command: [bash, -lc]\n"
        "            args:\n            - |\n              set -e\n"
        "              torchrun --nnodes=$PET_NNODES --master_port=$PORT --nproc_per_node=8 train.py\n"
    )
    (found,) = read(tmp_path / "job.yaml")
    port = found.get("process.master_port")
    assert port is not None and (port.value, port.line) == (29511, 20)
    assert found.value("process.nnodes") == 4


def test_a_yaml_of_settings_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kind: Job\nrl: grpo\nrlhf_type: grpo\nmodel: org/m\nnum_generations: 8\n")
    assert all(found.get("scheduler.name") is None for found in read(tmp_path / "config.yaml"))


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": "two", "template": template(8, RUN)},
        {"template": {"spec": None}},
        {"template": []},
        {"tasks": [1]},
    ],
)
def test_manifests_that_are_not_what_they_should_be(spec: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "spec": spec}))
    assert all(found.value("scheduler.nodes") in (None, 1) for found in read(tmp_path / "job.yaml"))


@pytest.mark.parametrize("name", ["values.yaml", "templates/job.yaml"])
def test_a_chart_is_no_launch_before_helm_made_one_of_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / "chart" / name
    file.parent.mkdir(parents=True)
    (tmp_path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: prime-rl\n")
    file.write_text("orchestrator:\n  batch_size: 8\n  replicas: 1\n  enabled: true\n")
    with pytest.raises(InputError, match="helm template"):
        read(file)


def test_a_launch_below_a_chart_is_one(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: training\n")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "train.sh").write_text(VERL)
    (tmp_path / "files" / "grpo.yaml").write_text("orchestrator:\n  batch_size: 8\n")
    assert [plan.framework for name in ("train.sh", "grpo.yaml") for plan in read(tmp_path / "files" / name)] == [
        "verl",
        "prime-rl",
    ]


def test_a_manifest_says_its_kind_and_its_version_in_any_order() -> None:
    assert kubernetes.is_manifest("# x\nkind: Job\nmetadata: {}\napiVersion: batch/v1\n")
    assert kubernetes.is_manifest("---\napiVersion: batch/v1\nspec: {}\nkind: Job\n")
    assert not kubernetes.is_manifest("kind: Job\n" * 20_000)  # once it took a minute to say so
    assert not kubernetes.is_manifest("spec:\n  apiVersion: v1\n  kind: Pod\n")


def test_a_leader_with_a_template_of_its_own_is_one_of_the_group(tmp_path: Path) -> None:
    serve = ["vllm", "serve", "org/m", "--tensor-parallel-size", "8"]
    leader = {"size": 2, "leaderTemplate": template(4, serve), "workerTemplate": template(8)}
    found = plan(tmp_path, "LeaderWorkerSet", {"leaderWorkerTemplate": leader})
    assert (found.value("scheduler.nodes"), found.value("scheduler.shapes")) == (2, [4, 8])


def test_slots_of_an_mpi_job(tmp_path: Path) -> None:
    launcher = template(None, ["mpirun", "-np", "16", "torchrun", "--nproc_per_node=1", "train.py"])
    roles = {"Launcher": {"replicas": 1, "template": launcher}, "Worker": {"replicas": 2, "template": template(8)}}
    found = plan(tmp_path, "MPIJob", {"slotsPerWorker": 8, "mpiReplicaSpecs": roles})
    assert (found.value("scheduler.slots"), found.value("scheduler.step_tasks")) == (16, 16)


def test_arguments_of_an_image_with_a_program_of_its_own(tmp_path: Path) -> None:
    container = template(8, image="vllm/vllm-openai:v0.11.0", args=["--model", "org/model", "--max-model-len", "4096"])
    found = plan(tmp_path, "Deployment", {"replicas": 1, "template": container})
    assert (found.value("engine.model"), found.value("engine.max_model_len")) == ("org/model", 4096)
