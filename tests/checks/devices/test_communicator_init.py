"""RLD320: groups that cannot be built."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.devices.communicator_init import check

from rldoctor.api import Severity
from rldoctor.logs.triage import triage_text
from tests.checks.launches import finding, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised
from tests.logs.excerpts import OUT_OF_MEMORY
from tests.logs.raising import traceback

SYNC: dict[str, Any] = {"sync__backend": "nccl", "placement__mode": "server"}


def test_a_server_that_leaves_no_memory_for_nccl() -> None:
    # https://github.com/modelscope/ms-swift/issues/5428
    found = finding(check, "ms-swift", **SYNC, engine__gpu_memory_utilization=0.98)
    assert found.severity is Severity.WARNING and found.fixes[0].edits[0].value == 0.9
    for share in (0.9, 0.95):
        assert quiet(check, "ms-swift", **SYNC, engine__gpu_memory_utilization=share)
    assert quiet(check, **{**SYNC, "placement__mode": "colocate"}, engine__gpu_memory_utilization=0.98)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", "NCCL fails"),
        ("Weight update group already initialized. Call close_communicator first.", "an earlier trainer"),
        ("Distributed package doesn't have NCCL built in", "has no NCCL"),
        ("ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "sees no GPU"),
    ],
)
def test_what_the_libraries_say(message: str, said: str) -> None:
    assert said in logged(check, raised("RuntimeError", message)).message


@pytest.mark.parametrize(
    ("frame", "command"),
    [
        ("trl/scripts/vllm_serve.py init_communicator", "trl vllm-serve --model MODEL"),
        ("swift/rlhf_trainers/vllm_client.py init", "swift rollout --model MODEL"),
        ("verl/workers/rollout/x.py init", None),  # it has no such server
    ],
)
def test_the_server_that_is_started_again_is_the_frameworks_own(frame: str, command: str | None) -> None:
    text = traceback("RuntimeError: Weight update group already initialized.", frame)
    first = logged(check, text).fixes[0]
    assert first.commands == ((command,) if command else ())


def test_a_group_without_memory() -> None:
    text = raised(
        "torch.distributed.DistBackendError",
        "NCCL error in: NCCLUtils.cpp:77, unhandled cuda error\nncclUnhandledCudaError: Call to CUDA function failed.\n"
        "Last error:\nFailed to CUDA calloc async 608 bytes: Cuda failure 2 'out of memory'",
    )
    found = logged(check, text)
    assert "no memory is left for NCCL" in found.message
    assert found.fixes[0].edits[0].option == "engine.gpu_memory_utilization"


def test_versions_that_differ() -> None:
    warn = "n1:1:2 [0] init.cc:99 NCCL WARN Mismatched NCCL version detected : rank 0 22105 rank 1 22703\n"
    assert "different NCCL versions" in logged(check, warn + raised("RuntimeError", "ncclInvalidUsage")).message


def test_a_workers_loop_comes_after_any_cause() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/313
    loop = (
        "(RayWorkerWrapper pid=9) ERROR 07-01 12:00:00 worker_base.py:145] Error executing method "
        "start_worker_execution_loop. This might cause deadlock in distributed execution.\n"
    )
    assert "execution loop" in logged(check, loop + raised("RuntimeError", "x")).message
    assert triage_text(loop + OUT_OF_MEMORY).findings[0].code == "RLD206"


def test_a_broadcast_that_fails_for_another_reason() -> None:
    text = "ERROR Error executing method update_weight. This might cause deadlock.\n" + raised("KeyError", "'x'")
    assert findings(check, text) == []


def test_ascend_devices_that_do_not_reach_each_other() -> None:
    text = (
        "InnerRunOpApi:torch_npu/csrc/framework/OpParamMaker.cpp:281 OPS function error: HcclAllreduce, error code is "
        "6\n[ERROR] 2025-04-08-18:07:20 (PID:1292363, Device:1, RankID:1) ERR01100 OPS call acl api failed.\n"
        "EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not send "
        "the data in time."
    )
    found = logged(check, raised("RuntimeError", text, "/opt/venv/lib/python3.11/site-packages/torch/x.py all_reduce"))
    assert "EI0006 Getting socket times out" in found.message
    assert any("HCCL_CONNECT_TIMEOUT" in command for fix in found.fixes for command in fix.commands)


def test_nccls_header_without_the_lines_that_say_why() -> None:
    cut = (
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/ProcessGroupNCCL.cpp:3356, unhandled system error"
    )
    assert "unhandled system error" in logged(check, f"{cut} (run with NCCL_DEBUG=INFO for details)\n").message


def test_gloos_ranks_do_not_reach_each_other() -> None:
    text = "Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"
    found = logged(check, raised("RuntimeError", text, "torch/distributed/distributed_c10d.py _new_group"))
    assert "export GLOO_SOCKET_IFNAME=eth0" in found.fixes[0].commands


def test_an_ascend_group_that_is_refused() -> None:
    # https://github.com/vllm-project/vllm-ascend/issues/3162
    where = "/srv/trl/trl/extras/vllm_client.py init_communicator"
    assert "HCCL_E_INTERNAL" in logged(check, raised("RuntimeError", "HCCL error: HCCL_E_INTERNAL", where)).message
    later = raised("RuntimeError", "HCCL error: HCCL_E_INTERNAL", "/srv/run.py all_reduce")
    assert findings(check, later) == []
