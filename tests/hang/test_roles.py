"""Roles and ranks by titles, commands and variables."""

from __future__ import annotations

import pytest

from rldoctor.hang.roles import Role, role_of

PYTHON = "/usr/bin/python3.11"
RANK3 = {"RANK": "3", "WORLD_SIZE": "8"}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("VLLM::EngineCore", "engine"),
        ("VLLM::EngineCore_DP1", "engine"),
        ("VLLM::EngineCor", "engine"),  # what the kernel keeps of a zombie's title
        ("VLLM::Worker_TP1", "engine worker"),
        ("VLLM::Worker_DP0_PP1_TP3_EP3", "engine worker"),
        ("VLLM::APIServer_0", "server"),
        ("ray::IDLE", "ray idle"),
        ("ray::WorkerDict.actor_rollout_generate_sequences", "ray worker"),
        ("ray::DashboardAgent", "ray service"),
        ("/opt/ray/core/src/ray/raylet/raylet --node_ip_address=10.0.0.1", "ray service"),
        ("/usr/bin/python3 -u /opt/ray/_private/log_monitor.py --x", "ray service"),
        ("/usr/bin/python3 /usr/local/bin/torchrun --nproc-per-node 8 train.py", "launcher"),
        ("/usr/bin/python3 -m torch.distributed.run train.py", "launcher"),
        ("/usr/bin/python3 /usr/local/bin/accelerate launch train.py", "launcher"),
        ("/usr/bin/python3 -m verl.trainer.main_ppo data.train_batch_size=8", "trainer"),
        ("/usr/bin/python3 /usr/local/bin/vllm serve model", "server"),
        ("/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model x", "server"),
        ("/usr/bin/python3 train_grpo.py", "trainer"),
        ("/usr/bin/python3 -c from multiprocessing.resource_tracker import main;main(22)", "helper"),
        ("/usr/bin/python3 notes.py", "other"),
        ("/usr/bin/python3 evaluate.py --engine vllm-0.9", "other"),
    ],
)
def test_role(command: str, kind: str) -> None:
    program = None if command.startswith("/opt/ray/core") else PYTHON
    assert role_of(command.split(" "), program, {}, {}).kind == kind


def test_a_shell_that_starts_a_launcher_is_none() -> None:
    assert role_of(["bash", "-c", "torchrun train.py"], "/bin/bash", {}, {}).kind == "other"


def test_rank() -> None:
    command = ["python", "-u", "train.py"]
    assert role_of(command, PYTHON, RANK3, {}) == Role("rank", "train.py", "3")
    assert role_of(command, PYTHON, RANK3, RANK3).kind == "helper"  # a data loader's worker inherits it


SRUN3 = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("command", "variables", "parent", "role"),
    [
        ("train.py", SRUN3, {}, Role("rank", "train.py", "3")),
        ("train.py", {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, {}, Role("rank", "train.py", "3")),
        ("train.py", SRUN3, SRUN3, Role("helper", "train.py")),
        # torchrun under srun: its own ranks count, not those of the step.
        ("train.py", {**SRUN3, "RANK": "3", "WORLD_SIZE": "64"}, SRUN3, Role("rank", "train.py", "3")),
        ("-m torch.distributed.run train.py", SRUN3, {}, Role("launcher", "torch.distributed.run")),
        # Servers under srun do not meet, and the batch script is no step.
        ("-m vllm.entrypoints.openai.api_server", SRUN3, {}, Role("server", "vllm.entrypoints.openai.api_server")),
        ("train.py", {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"}, {}, Role("other", "train.py")),
    ],
)
def test_ranks_of_other_launchers(command: str, variables: dict[str, str], parent: dict[str, str], role: Role) -> None:
    assert role_of(["python", *command.split(" ")], PYTHON, variables, parent) == role


def test_rank_of_a_tensor_parallel_worker() -> None:
    assert role_of(["VLLM::Worker_TP1"], PYTHON, RANK3, {}).rank == "1"


def test_code_that_is_given_in_the_command_is_no_name() -> None:
    command = ["/usr/bin/python3", "-B", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(4)"]
    assert role_of(command, PYTHON, {}, {}).name == "python3"
