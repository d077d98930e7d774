"""RLD324: ranks that are expected and ranks that are started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices.world_size import check

from rldoctor.api import Outcome
from tests.checks.launches import LaunchFile, finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

MISSING = "Timed out after 26 seconds waiting for clients. 2/4 clients joined."


def test_more_nodes_than_there_are() -> None:
    found = finding(check, nodes=1, process__launcher="torchrun", process__nnodes=2)
    assert found.message == "the launcher waits for 2 nodes, and there is 1"
    assert judged(check, nodes=2, process__launcher="torchrun", process__nnodes=2).outcome is Outcome.PASS
    assert judged(check, process__launcher="torchrun", process__nnodes=2).outcome is Outcome.NOT_CHECKED
    assert quiet(check, nodes=1, process__launcher="ray", process__nnodes=2)


@pytest.mark.parametrize(("rank", "fires"), [(2, True), (-1, True), (1, False), (0, False)])
def test_a_node_that_is_none_of_the_run(rank: int, fires: bool) -> None:
    plan: dict[str, Any] = {"nodes": 2, "process__launcher": "torchrun", "process__nnodes": 2}
    outcome = judged(check, **plan, process__node_rank=rank)
    assert [found.message.startswith(f"this is node {rank} of 2") for found in outcome.findings] == [True] * fires


# torch/distributed/run.py hands --node_rank to the static rendezvous alone.
def test_a_store_gives_each_node_its_rank() -> None:
    plan: dict[str, Any] = {"nodes": 2, "process__launcher": "torchrun", "process__nnodes": 2}
    assert quiet(check, **plan, process__node_rank=2, process__rdzv_backend="c10d")
    assert finding(check, **plan, process__node_rank=2, process__rdzv_backend="static")


def test_processes_that_nodes_cannot_share() -> None:
    plan: dict[str, Any] = {"nodes": 2, "process__launcher": "accelerate", "process__nnodes": 2}
    found = finding(check, **plan, process__total=15)
    assert "starts 7 on each" in found.message
    assert found.fixes[0].edits[0].value == 14
    assert quiet(check, **plan, process__total=16)


def test_one_nodes_processes_for_all_nodes() -> None:
    plan: dict[str, Any] = {"nodes": 2, "process__launcher": "accelerate", "process__nnodes": 2}
    found = finding(check, **plan, process__total=8, scheduler__gpus_per_node=8)
    assert "8 are 4 on each of 2" in found.message and found.fixes[0].edits[0].value == 16
    assert quiet(check, **plan, process__total=16, scheduler__gpus_per_node=8)
    assert quiet(check, **{**plan, "process__nnodes": 1}, process__total=8, scheduler__gpus_per_node=8)
    chosen = {"process__devices": "0,1,2,3", "env__CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    for name, devices in chosen.items():
        assert quiet(check, **plan, process__total=8, scheduler__gpus_per_node=8, **{name: devices})


def test_clients_that_never_joined() -> None:
    found = logged(check, raised("torch.distributed.DistStoreError", MISSING))
    assert found.message.startswith("2 of 4 ranks joined")
    assert "WORLD_SIZE" in found.fixes[0].title


def test_the_weight_sync_groups_store_is_another_matter() -> None:
    frame = "/opt/venv/lib/python3.11/site-packages/trl/generation/vllm_client.py init_communicator"
    assert findings(check, raised("torch.distributed.DistStoreError", MISSING, frame)) == []


def test_a_rank_beyond_the_world_as_gloo_says_it() -> None:
    # RANK=2 WORLD_SIZE=2 with torch 2.13
    text = raised("RuntimeError", "[enforce fail at /pytorch/third_party/gloo/gloo/context.cc:23] rank < size. 2 vs 2")
    assert "rank 2 of 2" in logged(check, text).message


SBATCH = "#!/bin/bash\n#SBATCH --nodes={nodes}\n#SBATCH --gres=gpu:8\n"


def launched(folder: Path, nodes: object, command: str, **more: Any) -> list[str]:
    """What the check says of a batch script."""
    text = SBATCH.format(nodes=nodes) + command + "\n"
    return [found.message for found in LaunchFile(folder, text, {"trl": "0.24.0"}, **more).findings(check)]


@pytest.mark.parametrize(
    ("nodes", "command", "said"),
    [
        (2, "srun torchrun --nnodes=4 --nproc_per_node=8 grpo.py", "waits for 4 nodes, and 2 are allocated"),
        (1, "srun torchrun --nnodes 2 --nproc_per_node 8 grpo.py", "waits for 2 nodes, and 1 is allocated"),
        (2, "srun accelerate launch --num_machines 4 --num_processes 32 grpo.py", "waits for 4 nodes, and 2"),
        (2, "srun --nodes=4 --ntasks-per-node=8 python grpo.py", "waits for 4 nodes, and 2"),
        (2, "srun --ntasks-per-node=8 torchrun --nnodes=2 --nproc_per_node=8 grpo.py", "srun starts 16 torchruns"),
        (2, "srun -n1 torchrun --nnodes=2 --nproc_per_node=8 grpo.py", "srun starts 1 torchrun, and they wait for 2"),
        (2, "torchrun --nnodes=2 --nproc_per_node=8 grpo.py", "runs on the first of 2 nodes"),
        (1, "srun --ntasks-per-node=8 torchrun --nproc_per_node=8 grpo.py", "64 share the 8 devices, and all but"),
        (1, "srun -n8 torchrun --standalone --nproc_per_node=8 grpo.py", "64 share the 8 devices"),
        (1, "srun -n8 bash -c 'cd w; torchrun --nproc_per_node=8 grpo.py'", "64 share the 8 devices"),
        (2, "srun --ntasks-per-node=2 accelerate launch --num_processes 8 grpo.py", "32 share the 16 devices"),
    ],
)
def test_what_the_scheduler_is_asked_for_does_not_fit(nodes: int, command: str, said: str, tmp_path: Path) -> None:
    messages = launched(tmp_path, nodes, command)
    assert len(messages) >= 1 and any(said in message for message in messages), messages


@pytest.mark.parametrize(
    ("nodes", "command"),
    [
        (2, "srun torchrun --nnodes=2 --nproc_per_node=8 grpo.py"),
        (2, "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 grpo.py"),
        (4, "srun -N2 torchrun --nnodes=2 --nproc_per_node=8 grpo.py"),
        ("2-4", "srun torchrun --nnodes=4 --nproc_per_node=8 grpo.py"),
        ("$N", "srun torchrun --nnodes=4 --nproc_per_node=8 grpo.py"),
        (2, "for i in 0 1; do srun -N1 -n1 -r $i torchrun --nnodes=2 --node_rank=$i --nproc_per_node=8 grpo.py & done"),
        (2, "srun -N1 -n1 -w $head torchrun --nnodes=2 --nproc_per_node=8 grpo.py"),
        (2, "srun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_PROCID --nproc_per_node=8 grpo.py'"),
        (2, "srun --ntasks-per-node=8 python grpo.py"),
        (1, "torchrun --nproc_per_node=8 grpo.py"),
        (2, "srun --ntasks=4 torchrun --standalone --nproc_per_node=2 grpo.py"),
        (1, "srun --ntasks-per-node=2 torchrun --standalone --nproc_per_node=4 grpo.py"),
        (1, "srun --ntasks-per-node=1 torchrun --nproc_per_node=8 grpo.py"),
        (1, "srun --ntasks-per-node=8 torchrun --nproc_per_node=1 grpo.py"),
        # Each task asks for itself whether it is the one of its node.
        (1, "srun -n8 bash -c 'if [ $SLURM_LOCALID = 0 ]; then torchrun --nproc_per_node 8 grpo.py; fi'"),
        (1, "srun -n8 bash -c '[ $SLURM_LOCALID = 0 ] && exec torchrun --nproc_per_node 8 grpo.py'"),
    ],
)
def test_what_fits_or_is_not_known_is_quiet(nodes: object, command: str, tmp_path: Path) -> None:
    assert launched(tmp_path, nodes, command) == []


def test_the_evidence_is_the_directives_line(tmp_path: Path) -> None:
    text = SBATCH.format(nodes=2) + "srun torchrun --nnodes=4 --nproc_per_node=8 grpo.py\n"
    (found,) = (f for f in LaunchFile(tmp_path, text, {}).findings(check) if "allocated" in f.message)
    assert [(item.text, item.line) for item in found.evidence if item.line == 2] == [("#SBATCH --nodes = 2", 2)]
    assert [fix.commands for fix in found.fixes][-1] == ("#SBATCH --nodes=4",)


def test_pods_of_a_job_count_as_nodes(tmp_path: Path) -> None:
    text = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker:\n      replicas: 2\n"
        "      template:\n        spec:\n          containers:\n          - name: main\n"
        "            command: [torchrun, --nnodes={nodes}, --nproc_per_node=8, train.py]\n"
        "            resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
    )
    (found,) = LaunchFile(tmp_path, text.format(nodes=4), {}, name="job.yaml").findings(check)
    assert found.message == "the launcher waits for 4 nodes, and 2 are allocated"
    assert [item.line for item in found.evidence if "replicas" in item.text] == [6]
    assert LaunchFile(tmp_path, text.format(nodes=2), {}, name="job.yaml").findings(check) == []


@pytest.mark.parametrize(("ranks", "more"), [(16, ""), (24, "--oversubscribe "), (24, "")])
def test_ranks_beyond_the_slots_of_the_hosts(ranks: int, more: str, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("h1 slots=8\nh2 slots=8\n")
    (tmp_path / "train.py").write_text("from trl import GRPOConfig, GRPOTrainer\nGRPOTrainer(args=GRPOConfig())\n")
    text = f"mpirun {more}-np {ranks} --hostfile hosts python train.py\n"
    said = [found.message for found in LaunchFile(tmp_path, text, {"trl": "0.24.0"}).findings(check)]
    wrong = "mpirun is to start 24 ranks, and the hosts have 16 slots: Open MPI refuses"
    assert said == ([wrong] if ranks > 16 and not more else [])
