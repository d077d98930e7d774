"""RLD303: processes, engines and the devices that they see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices.visible_devices import check
from rldoctor_checks.devices.visible_devices.logged import REFUSALS

from rldoctor.api import Applicability, Outcome
from tests.checks.launches import LaunchFile, finding, judged, launch, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

TORCHRUN: dict[str, Any] = {"process__launcher": "torchrun"}
SWIFT: dict[str, Any] = {**TORCHRUN, "placement__mode": "colocate", "entry": "swift rlhf"}


def test_more_processes_than_visible_devices() -> None:
    # https://github.com/modelscope/ms-swift/issues/6810
    found = finding(check, gpus=8, **TORCHRUN, process__nproc=8, env__CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,7")
    assert found.message.startswith("8 processes on a node that see 7 devices: rank 7 finds none")
    assert found.fixes[0].edits[0].value == 7


def test_more_processes_than_the_machine_has() -> None:
    # https://github.com/huggingface/trl/issues/2851
    assert "8 processes on a node that see 2" in finding(check, gpus=2, **TORCHRUN, process__nproc=8).message
    assert judged(check, gpus=8, **TORCHRUN, process__nproc=8).outcome is Outcome.PASS
    assert quiet(check, **TORCHRUN, process__nproc=8)


def test_the_launchers_own_choice_counts() -> None:
    assert quiet(check, gpus=8, **TORCHRUN, process__nproc=2, process__devices="4,5", env__CUDA_VISIBLE_DEVICES="0")
    assert "see 2 devices" in finding(check, gpus=8, **TORCHRUN, process__nproc=4, process__devices="4,5").message
    assert quiet(check, gpus=8, **TORCHRUN, process__nproc=8, process__devices="all")


def test_a_fix_that_breaks_the_groups_is_not_safe() -> None:
    batch: dict[str, Any] = {"batch__per_device": 1, "batch__steps_per_generation": 1, "batch__generations": 4}
    seven = finding(check, gpus=7, **TORCHRUN, process__nproc=8, **batch)
    assert seven.fixes[0].applicability is Applicability.UNSAFE
    four = finding(check, gpus=4, **TORCHRUN, process__nproc=8, **batch)
    assert four.fixes[0].applicability is Applicability.SAFE


# torch/cuda/__init__.py, _parse_visible_devices: a repeated ordinal results in an empty set.
def test_a_device_that_stands_twice() -> None:
    plan: dict[str, Any] = {"process__launcher": "none", "process__nproc": 1}
    found = finding(check, gpus=4, **plan, env__CUDA_VISIBLE_DEVICES="0,1,1")
    assert "names GPU 1 twice" in found.message
    assert quiet(check, gpus=4, **plan, env__CUDA_VISIBLE_DEVICES="0,-1,-1")
    assert found.fixes[0].edits[0].value == "0,1"


def test_devices_that_the_machine_lacks() -> None:
    found = finding(check, gpus=4, process__launcher="none", process__nproc=1, env__CUDA_VISIBLE_DEVICES="4,5,6,7")
    assert "names GPU 4,5,6,7, the node has 4" in found.message
    assert found.fixes[0].edits[0].value == "0"
    assert quiet(check, gpus=4, process__launcher="none", process__nproc=1, env__CUDA_VISIBLE_DEVICES="3")


def test_without_a_list_of_devices_nothing_is_compared_with_the_machine() -> None:
    result = judged(check, gpus=4, process__launcher="none")
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert "no device is named: every process sees all of them" in str(result.reason)
    listed = judged(check, gpus=4, process__launcher="none", env__CUDA_VISIBLE_DEVICES="3")
    assert listed.outcome is Outcome.PASS and "devices 3 of 4" in str(listed.reason)


def test_another_vendors_devices_are_not_judged() -> None:
    case = launch(gpus=2, **TORCHRUN, process__nproc=8)
    assert case.gpus is not None
    assert quiet(check, **TORCHRUN, process__nproc=8, env__HIP_VISIBLE_DEVICES="0,1")
    # A launch for NPUs, on a machine with CUDA devices.
    npus: dict[str, Any] = {"env__ASCEND_RT_VISIBLE_DEVICES": "0,1", "gpus": 8}
    assert quiet(check, "ms-swift", version="4.5.2", **SWIFT, process__nproc=2, **npus)
    assert quiet(check, **TORCHRUN, process__nproc=16, **npus)


def test_ms_swift_spreads_a_model_over_devices() -> None:
    one: dict[str, Any] = {**SWIFT, "process__launcher": "none", "process__nproc": 1}
    found = finding(check, "ms-swift", version="3.8.1", gpus=8, **one, env__CUDA_VISIBLE_DEVICES="4,5,6,7")
    assert "GRPO with vLLM is refused" in found.message
    assert found.fixes[0].edits[0].value == 4
    assert quiet(check, "ms-swift", version="3.8.1", gpus=8, **one, env__CUDA_VISIBLE_DEVICES="4")
    # Before 3.6 it was let through, unless DeepSpeed refused.
    assert quiet(check, "ms-swift", version="3.5.3", gpus=8, **one, env__CUDA_VISIBLE_DEVICES="4,5")
    deepspeed = {**one, "trainer__deepspeed": "zero2"}
    assert "DeepSpeed" in finding(check, "ms-swift", version="3.5.3", gpus=2, **deepspeed).message
    # Megatron has its own way to start, other frameworks their own rules.
    assert quiet(check, "ms-swift", version="3.8.1", gpus=4, **{**one, "entry": "megatron rlhf"})
    assert quiet(check, "TRL", version="0.24.0", gpus=4, **one)


def test_ms_swift_wants_a_whole_share() -> None:
    found = finding(check, "ms-swift", version="3.8.1", gpus=8, **SWIFT, process__nproc=3)
    assert "uneven share" in found.message


def test_ms_swifts_inference_workers_have_devices() -> None:
    separate = {**TORCHRUN, "entry": "swift rlhf", "placement__mode": "separate", "placement__engines": 1}
    found = finding(check, "ms-swift", version="3.3.1", gpus=4, **separate, process__nproc=4)
    assert "5 for 4 training processes and 1 inference workers" in found.message
    assert found.fixes[0].edits[0].value == 3
    assert quiet(check, "ms-swift", version="3.3.1", gpus=4, **separate, process__nproc=3)


def test_trls_engine_device_beyond_the_visible_ones() -> None:
    # https://github.com/huggingface/trl/issues/2826
    device = {"process__launcher": "accelerate", "placement__engine_device": "cuda:1"}
    found = finding(check, version="0.14.0", gpus=1, **device, process__nproc=1, process__total=1)
    assert found.fixes[0].edits[0].value == "cuda:0"
    assert quiet(check, version="0.14.0", gpus=2, **device, process__nproc=1, process__total=1)


def test_a_server_with_more_ranks_than_devices() -> None:
    server = {"engine__tensor_parallel_size": 4, "env__CUDA_VISIBLE_DEVICES": "0,1"}
    found = finding(check, gpus=8, server=server)
    assert found.message == "the engine asks for 4 devices and sees 2"
    assert found.fixes[0].edits[0].value == 2
    assert quiet(check, gpus=8, server={**server, "engine__tensor_parallel_size": 2})


def test_an_engine_that_takes_other_nodes_is_not_judged() -> None:
    for name, value in (
        ("distributed_executor_backend", "ray"),
        ("data_parallel_rank", 1),
        ("data_parallel_address", "h"),
    ):
        case = {"engine__data_parallel_size": 4, f"engine__{name}": value, "env__CUDA_VISIBLE_DEVICES": "0"}
        assert quiet(check, gpus=8, server=case), name


@pytest.mark.parametrize("framework", ["OpenRLHF", "SkyRL"])
def test_colocated_engines_take_the_policys_devices(framework: str) -> None:
    plan = {"placement__mode": "colocate", "placement__trainer_gpus": 8, "engine__tensor_parallel_size": 2}
    found = finding(check, framework, version="0.8.5", **plan, placement__engines=2)
    assert "take 4, the policy has 8" in found.message
    assert found.fixes[0].edits[0].value == 4
    assert quiet(check, framework, version="0.8.5", **plan, placement__engines=4)
    assert quiet(check, framework, version="0.8.5", **{**plan, "placement__mode": "separate"}, placement__engines=2)


def test_colocated_engines_of_unknown_size_are_no_pass() -> None:
    plan = {"placement__mode": "colocate", "placement__trainer_gpus": 8, "placement__engines": 2}
    result = judged(check, "SkyRL", version="0.3.0", **plan, engine__distributed_executor_backend="ray")
    assert result.outcome is Outcome.NOT_CHECKED
    assert "how many devices an engine takes is not known" in str(result.reason)


def test_ms_swift_before_it_compared_devices() -> None:
    one: dict[str, Any] = {**SWIFT, "process__launcher": "none", "process__nproc": 1}
    result = judged(check, "ms-swift", version="3.1.0", gpus=8, **one)
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert "ms-swift 3.1.0 compares no devices" in str(result.reason)


def test_ray_reported_not_to_set_the_devices() -> None:
    plan = {"env__RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1", "placement__engines": 4}
    found = finding(check, "OpenRLHF", version="0.5.9", **plan)
    assert "all engines take GPU 0" in found.message
    assert "on which OpenRLHF 0.6.0 relies" in finding(check, "OpenRLHF", version="0.6.0", **plan).message
    # The release that sets them itself: https://github.com/OpenRLHF/OpenRLHF/pull/800
    mended = judged(check, "OpenRLHF", version="0.6.0.post1", **plan)
    assert mended.findings == ()
    assert "OpenRLHF 0.6.0.post1 sets the devices itself" in str(mended.reason)
    assert quiet(check, "OpenRLHF", version="0.6.1", **plan)
    assert quiet(check, "OpenRLHF", version="0.5.9", **plan, engine__tensor_parallel_size=2)


def test_a_launch_file_is_mended(tmp_path: Path) -> None:
    text = (
        "CUDA_VISIBLE_DEVICES=0,1 swift rlhf --rlhf_type grpo --model m --use_vllm true --vllm_mode colocate \\\n"
        "    --num_generations 8 --per_device_train_batch_size 8\n"
    )
    file = LaunchFile(tmp_path, text, {"ms-swift": "3.8.1", "vllm": "0.10.1"}, gpus=8)
    (found,) = file.findings(check)
    assert found.fixes[0].edits[0].spelled == "export NPROC_PER_NODE=2"
    assert "NPROC_PER_NODE=2" in file.mend(check)
    assert file.findings(check) == []


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        (
            "ValueError",
            "GRPO with vLLM is not compatible with `device_map`. Please set NPROC_PER_NODE equal to num_processes.",
            "NPROC_PER_NODE is not set to their number",
        ),
        ("AssertionError", "n_gpu: 7, local_world_size: 8", "8 processes and 7 visible GPUs"),
        (
            "ValueError",
            "DeepSpeed is not compatible with `device_map`. n_gpu: 4, local_world_size: 1.",
            "sees 4 GPUs for 1 processes",
        ),
        (
            "AssertionError",
            "Async mode requires total GPUs(4) = training GPUs(4) + inference workers(1). Please adjust.",
            "4 visible GPUs are not the 4 training processes and 1 inference workers",
        ),
        (
            "ValueError",
            "The requested device for vllm (cuda:1) is not available. You are likely using vLLM without restricting",
            "the engine's device cuda:1 does not exist",
        ),
        (
            "ValueError",
            "World size (4) is larger than the number of available GPUs (1) in this node. If this is intentional",
            "asks for 4 devices and sees 1",
        ),
        (
            "ValueError",
            "Tensor parallel size (8) cannot be larger than the number of available GPUs (4).",
            "asks for 8 devices and sees 4",
        ),
        (
            "AssertionError",
            "local_world_size (8) must be less than or equal to the number of visible devices (2).",
            "has 8 ranks on the node and sees 2 devices",
        ),
        (  # as a comment in an issue folds it
            "AssertionError",
            "local_world_size (8) must be less than or equal to the number\nof visible devices (0).",
            "has 8 ranks on the node and sees 0 devices",
        ),
        ("ValueError", "No slot '4' specified on host 'localhost'", "GPU 4, which localhost does not have"),
        ("RuntimeError", "CUDA error: invalid device ordinal", "a device number beyond"),
    ],
)
def test_what_frameworks_say(kind: str, message: str, said: str) -> None:
    assert said in logged(check, raised(kind, message)).message


def test_every_refusal_finds_its_numbers() -> None:
    assert all(said.count("{") == 0 or pattern for pattern, said, _ in REFUSALS.values())


def test_other_errors_are_not_this() -> None:
    assert findings(check, raised("RuntimeError", "CUDA error: an illegal memory access was encountered")) == []
    assert findings(check, raised("ValueError", "local_rank 3 is fine")) == []


def test_more_processes_than_the_scheduler_is_asked_for(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:{count}\nsrun torchrun --nproc_per_node=8 grpo.py\n"
    (found,) = LaunchFile(tmp_path, text.format(count=4), {"trl": "0.24.0"}, gpus=8).findings(check)
    assert found.message.startswith("8 processes on a node that see 4 devices")
    assert [item.line for item in found.evidence][-1] == 3
    assert LaunchFile(tmp_path, text.format(count=8), {"trl": "0.24.0"}, gpus=1).findings(check) == []


def test_a_task_sees_its_own_devices(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8\n"
    text += "srun --gpus-per-task=1 torchrun --nnodes=2 --nproc_per_node=8 x.py\n"
    (found,) = LaunchFile(tmp_path, text, {}).findings(check)
    assert "see 1 devices" in found.message
    assert LaunchFile(tmp_path, text.replace("--gpus-per-task=1 ", ""), {}).findings(check) == []


TASKS = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node={tasks} --gpus-per-node=4
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1) MASTER_PORT=29500
srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS {visible}python train.py'
"""
TRAINER = "from trl import GRPOConfig, GRPOTrainer\nGRPOTrainer('m', args=GRPOConfig(output_dir='o')).train()\n"


@pytest.mark.parametrize(
    ("tasks", "visible", "says"),
    [
        (8, "", ["srun starts 8 ranks on a node of 4 devices: rank 4 finds none of its own"]),
        (4, "", []),
        (2, "", []),
        (8, "CUDA_VISIBLE_DEVICES=$((SLURM_LOCALID % 4)) ", []),
    ],
)
def test_a_step_of_more_ranks_than_devices(tasks: int, visible: str, says: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    text = TASKS.format(tasks=tasks, visible=visible)
    found = LaunchFile(tmp_path, text, {"trl": "0.24.0"}, gpus=4).findings(check)
    assert [one.message.partition(" (")[0] for one in found] == says


@pytest.mark.parametrize(
    ("directives", "step", "command"),
    [
        ("#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=4", "srun", "#SBATCH --ntasks-per-node=4"),
        ("#SBATCH -N 2 --gpus-per-node=4", "srun --ntasks-per-node=8", "srun --ntasks-per-node=4"),
        ("#SBATCH -N 2 --ntasks=16 --gpus-per-node=4", "srun", "#SBATCH --ntasks=8"),
        ("#PBS -l select=1:ngpus=4:mpiprocs=8", "mpirun -np 8", "mpirun -np 4"),
    ],
)
def test_fewer_tasks_are_said_as_the_launch_says_how_many(
    directives: str, step: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    text = f"#!/bin/bash\n{directives}\n{step} bash -c 'LOCAL_RANK=$L python train.py'\n"
    (found,) = LaunchFile(tmp_path, text, {"trl": "0.24.0"}, gpus=4).findings(check)
    assert found.fixes[0].commands == (command,)


def test_devices_listed_for_an_allocation_are_not_held_against_this_machine(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --gres=gpu:8\nexport CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\n"
    text += "torchrun --nproc_per_node=8 x.py\n"
    assert LaunchFile(tmp_path, text, {}, gpus=1).findings(check) == []


# prime_rl/entrypoints/rl.py ("Requested N GPUs via deployment settings"), areal/utils/launcher.py
@pytest.mark.parametrize("framework", ["prime-rl", "AReaL"])
def test_trainer_and_engines_that_take_more_devices_than_there_are(framework: str) -> None:
    roles: dict[str, Any] = {"placement__mode": "async", "placement__trainer_gpus": 4}
    found = finding(check, framework, gpus=8, placement__engine_gpus=8, **roles)
    assert "the trainer takes 4 devices and the engines 8, and the machine has 8" in found.message
    assert [(edit.option, edit.value) for fix in found.fixes for edit in fix.edits] == [("placement.engine_gpus", 4)]
    assert quiet(check, framework, gpus=8, placement__engine_gpus=4, **roles)
    less = finding(check, framework, gpus=4, placement__engine_gpus=4, engine__tensor_parallel_size=2, **roles)
    assert [(edit.option, edit.value) for fix in less.fixes for edit in fix.edits] == [
        ("placement.trainer_gpus", 2),
        ("placement.engine_gpus", 2),
    ]


def test_devices_of_several_nodes_count_together() -> None:
    roles: dict[str, Any] = {"placement__trainer_gpus": 8, "placement__engine_gpus": 4, "placement__mode": "async"}
    assert "the machine has 8" in finding(check, "AReaL", gpus=8, **roles).message
    assert quiet(check, "AReaL", gpus=8, placement__nodes=2, **roles)


def test_nodes_of_a_multi_node_run_are_those_that_there_are(tmp_path: Path) -> None:
    text = "[deployment]\nnum_train_nodes = 2\nnum_infer_nodes = 1\n[orchestrator]\nbatch_size = 64\ngroup_size = 8\n"
    for nodes, refused in ((2, True), (3, False), (None, False)):
        run = LaunchFile(tmp_path, text, {"prime-rl": "0.8.0"}, gpus=8, name="rl.toml", nodes=nodes)
        assert [("2 nodes have 16" in one.message) for one in run.findings(check)] == [True] * refused


@pytest.mark.parametrize(("pipeline", "said"), [(2, []), (4, ["the engine asks for 32 devices over its nodes"])])
def test_an_engine_over_all_nodes_of_the_job(pipeline: int, said: list[str], tmp_path: Path) -> None:
    serve = f"vllm serve org/m -tp 8 -pp {pipeline} --distributed-executor-backend ray\n"
    text = "#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=8\nsrun ray start --address $HEAD &\n" + serve
    found = LaunchFile(tmp_path, text, {"vllm": "0.18.0"}).findings(check)
    assert [one.message.partition(", and")[0] for one in found] == said
