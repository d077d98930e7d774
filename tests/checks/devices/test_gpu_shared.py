"""RLD302: the rollout server and the trainer, and ranks, on one GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldoctor_checks.devices.gpu_shared import check

from rldoctor.api import Applicability, Outcome, Severity
from tests.checks.launches import LaunchFile, finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

SERVER: dict[str, Any] = {"engine__tensor_parallel_size": 2, "process__background": True}
TRAINER: dict[str, Any] = {"placement__mode": "server", "process__launcher": "accelerate", "process__nproc": 2}
SCRIPT = """\
CUDA_VISIBLE_DEVICES={} trl vllm-serve --model m --tensor_parallel_size 2 --port 8000 &
CUDA_VISIBLE_DEVICES={} accelerate launch --num_processes 2 train.py --use_vllm true --vllm_mode server \\
    --vllm_server_port 8000
"""
VERSIONS = {"trl": "0.21.0", "vllm": "0.10.0"}


def test_both_see_all_devices_and_take_the_first() -> None:
    found = finding(check, gpus=8, server=SERVER, **TRAINER)
    assert found.message.startswith("the rollout server and the trainer both use GPU 0,1: both join")
    assert found.fixes[0].edits[0].value == "2,3"


def test_an_overlap_beside_the_first_rank_is_about_memory() -> None:
    server = {**SERVER, "env__CUDA_VISIBLE_DEVICES": "1,2"}
    found = finding(check, gpus=8, server=server, **TRAINER, env__CUDA_VISIBLE_DEVICES="0,1")
    assert found.severity is Severity.WARNING
    assert "compete for its memory" in found.message


def test_a_trainer_that_takes_all_devices_leaves_the_servers_to_it(tmp_path: Path) -> None:
    script = SCRIPT.format("2,3", "0,1,2,3").replace("--num_processes 2", "--num_processes 4")
    (found,) = LaunchFile(tmp_path, script, VERSIONS, gpus=4).findings(check)
    edits = {edit.option: edit.value for edit in found.fixes[0].edits}
    assert edits == {"env.CUDA_VISIBLE_DEVICES": "0,1", "process.total": 2}
    assert found.fixes[0].applicability is Applicability.UNSAFE


def test_the_number_of_processes_is_changed_where_it_stands(tmp_path: Path) -> None:
    script = (
        "CUDA_VISIBLE_DEVICES=0,1 swift rollout --model m --vllm_tensor_parallel_size 2 &\n"
        "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model m --use_vllm true "
        "--vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000\n"
    )
    (found,) = LaunchFile(tmp_path, script, {"ms-swift": "3.9.0"}, gpus=8).findings(check)
    edits = {edit.option: edit.value for edit in found.fixes[0].edits}
    assert edits == {"env.CUDA_VISIBLE_DEVICES": "2,3,4,5,6,7", "process.nproc": 6}


def test_devices_of_their_own_are_quiet() -> None:
    server = {**SERVER, "env__CUDA_VISIBLE_DEVICES": "0,1"}
    result = judged(check, gpus=4, server=server, **TRAINER, env__CUDA_VISIBLE_DEVICES="2,3")
    assert result.outcome is Outcome.PASS
    assert str(result.reason).startswith("server on 0,1, trainer on 2,3")


def test_unused_visible_devices_are_no_overlap() -> None:
    server: dict[str, Any] = {"process__background": True, "engine__tensor_parallel_size": 1}
    assert quiet(check, gpus=2, server=server, **{**TRAINER, "process__nproc": 1}, env__CUDA_VISIBLE_DEVICES="1")


def test_what_is_not_known_is_not_judged() -> None:
    assert quiet(check, server=SERVER, **TRAINER)
    assert quiet(check, gpus=8, server=SERVER, **TRAINER, process__nnodes=2)
    # Two commands in the foreground are for two machines, or two terminals.
    assert quiet(check, gpus=8, server={"engine__tensor_parallel_size": 2}, **TRAINER)
    assert quiet(check, gpus=8, server={**SERVER, "engine__distributed_executor_backend": "ray"}, **TRAINER)


def test_a_server_on_the_only_gpu_of_the_machine() -> None:
    # https://github.com/huggingface/trl/issues/3487
    found = finding(check, version="0.18.0", gpus=1, placement__mode="server", placement__server_host="0.0.0.0")
    assert found.fixes[0].edits[0].value == "colocate"
    assert not finding(check, version="0.16.0", gpus=1, placement__mode="server").fixes
    assert quiet(check, gpus=1, placement__mode="server", placement__server_host="10.0.0.7")
    assert quiet(check, gpus=2, placement__mode="server")


def test_openrlhf_before_cuda_ipc() -> None:
    plan: dict[str, Any] = {"placement__mode": "colocate", "sync__backend": "nccl"}
    found = finding(check, "OpenRLHF", version="0.5.8", **plan)
    assert [edit.value for edit in found.fixes[1].edits] == ["gloo"]
    assert quiet(check, "OpenRLHF", version="0.5.9", **plan)
    assert quiet(check, "OpenRLHF", version="0.5.8", **{**plan, "sync__backend": "gloo"})


def test_a_file_is_mended(tmp_path: Path) -> None:
    file = LaunchFile(tmp_path, SCRIPT.format("0,1", "1,2"), VERSIONS, gpus=4)
    (found,) = file.findings(check)
    assert found.fixes[0].applicability is Applicability.SAFE
    assert "CUDA_VISIBLE_DEVICES=2,3 accelerate launch" in file.mend(check)
    assert file.findings(check) == []


def test_one_export_for_both_is_reported_and_not_edited(tmp_path: Path) -> None:
    text = "export CUDA_VISIBLE_DEVICES=0\n" + SCRIPT.replace("CUDA_VISIBLE_DEVICES={} ", "").replace(
        "size 2", "size 1"
    )
    file = LaunchFile(tmp_path, text.replace("num_processes 2", "num_processes 1"), VERSIONS, gpus=2)
    (found,) = file.findings(check)
    assert found.fixes[0].commands == ("CUDA_VISIBLE_DEVICES=1 accelerate launch ... train.py ...",)
    assert file.mend(check) == file.path.read_text()


def test_ncclss_own_words() -> None:
    # https://github.com/rllm-org/rllm/issues/10
    text = raised(
        "torch.distributed.DistBackendError",
        "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, invalid usage, NCCL version 2.21.5\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
        "Duplicate GPU detected : rank 7 and rank 5 both on CUDA device 10000",
    )
    assert "ranks 5 and 7 are both on CUDA device 10000" in logged(check, text).message


def test_pynccl_while_the_sync_group_is_built() -> None:
    # https://github.com/huggingface/trl/issues/3158
    frames = (
        "/opt/venv/lib/python3.10/site-packages/trl/extras/vllm_client.py init_communicator",
        "/opt/venv/lib/python3.10/site-packages/vllm/distributed/device_communicators/pynccl.py __init__",
    )
    text = raised("RuntimeError", "NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)", *frames)
    assert "two of its ranks are on one physical GPU" in logged(check, text).message


def test_trls_server_compares_uuids() -> None:
    text = raised(
        "RuntimeError",
        "Attempting to use the same CUDA device (UUID: GPU-1) for multiple distinct roles/ranks within the same "
        "communicator. This setup is unsupported and will likely lead to program hangs or incorrect behavior.",
    )
    assert "one physical GPU" in logged(check, text).message


def test_another_nccl_error_is_not_this() -> None:
    assert findings(check, raised("RuntimeError", "NCCL error: unhandled system error")) == []
