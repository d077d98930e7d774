"""RLD322: NCCL settings that differ, or do not suit the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices.nccl_settings import check

from rldoctor.api import Applicability, Outcome
from rldoctor.judge import judge_one
from rldoctor.logs.triage import triage_text
from tests.checks.launches import LaunchFile, finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised


def test_only_what_differs_is_named() -> None:
    # https://github.com/NovaSky-AI/SkyRL/pull/143
    server = {"env__NCCL_CUMEM_ENABLE": "0", "env__NCCL_DEBUG": "INFO"}
    found = finding(check, server=server, env__NCCL_CUMEM_ENABLE="1")
    assert found.message.startswith("NCCL_CUMEM_ENABLE is 0 for the rollout server and 1 for the trainer")
    assert found.fixes[0].applicability is Applicability.SAFE
    assert found.fixes[0].edits[0].value == "0"
    assert judged(check, server=server, env__NCCL_CUMEM_ENABLE="0").outcome is Outcome.PASS
    assert quiet(check, env__NCCL_CUMEM_ENABLE="1")


def test_settings_that_cannot_be_read_are_not_compared(tmp_path: Path) -> None:
    text = (
        "NCCL_P2P_DISABLE=$(cat p2p) trl vllm-serve --model m --port 8000 &\n"
        "NCCL_P2P_DISABLE=1 accelerate launch --num_processes 1 train.py --use_vllm true --vllm_mode server "
        "--vllm_server_port 8000\n"
    )
    file = LaunchFile(tmp_path, text, {"trl": "0.21.0", "vllm": "0.10.0"})
    (result,) = (judge_one(check, case) for case in file.cases())
    assert result.outcome is Outcome.NOT_CHECKED
    assert "NCCL_P2P_DISABLE cannot be read from the launch file" in str(result.reason)
    alike = judged(check, server={"env__NCCL_CUMEM_ENABLE": "0"}, env__NCCL_CUMEM_ENABLE="0")
    assert "11 NCCL settings are alike for server and trainer" in str(alike.reason)


def test_a_file_is_mended(tmp_path: Path) -> None:
    text = (
        "NCCL_P2P_DISABLE=1 trl vllm-serve --model m --port 8000 &\n"
        "accelerate launch --num_processes 1 train.py --use_vllm true --vllm_mode server --vllm_server_port 8000\n"
    )
    file = LaunchFile(tmp_path, text, {"trl": "0.21.0", "vllm": "0.10.0"})
    assert len(file.findings(check)) == 1
    file.mend(check)
    assert file.findings(check) == []


@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"])
def test_loopback_over_nodes(name: str) -> None:
    found = finding(check, process__nnodes=2, **{f"env__{name}": "lo"})
    assert "the loopback interface, and the run spans 2 nodes" in found.message
    assert quiet(check, process__nnodes=2, **{f"env__{name}": "eth0"})
    assert quiet(check, process__nnodes=1, **{f"env__{name}": "lo"})


def test_openrlhf_and_the_nccl_of_vllm_0_16() -> None:
    plan: dict[str, Any] = {"sync__backend": "nccl", "placement__mode": "separate"}
    found = finding(check, "OpenRLHF", version="0.9.4", vllm="0.16.0", **plan)
    assert found.fixes[1].edits[0].value == "gloo"
    assert quiet(check, "OpenRLHF", version="0.9.5", vllm="0.16.0", **plan)
    assert quiet(check, "OpenRLHF", version="0.9.4", vllm="0.15.0", **plan)
    assert quiet(check, "OpenRLHF", version="0.9.4", vllm="0.16.0", **{**plan, "placement__mode": "colocate"})


def test_a_transport_that_fails() -> None:
    # https://github.com/NovaSky-AI/SkyRL/issues/84
    text = "node1:42:99 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 1 'invalid argument'\n" + raised(
        "torch.distributed.DistBackendError",
        "NCCL error in: ProcessGroupNCCL.cpp:3, unhandled cuda error, NCCL version 2.21.5\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 1 'invalid argument'",
    )
    found = logged(check, text)
    assert any(edit.option == "env.NCCL_CUMEM_ENABLE" for fix in found.fixes for edit in fix.edits)
    # The settings are why, the refused communicator is what they bring about.
    assert [one.code for one in triage_text(text).findings][:2] == ["RLD322", "RLD320"]


def test_nemo_rls_sync_group() -> None:
    # https://github.com/NVIDIA-NeMo/RL/issues/722
    text = raised(
        "RuntimeError",
        "NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "/opt/nemo_rl/nemo_rl/models/generation/vllm_backend.py init_collective",
    )
    assert "cannot be built" in logged(check, text).message


def test_a_plain_nccl_failure_is_not_laid_to_settings() -> None:
    text = raised("RuntimeError", "NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)")
    assert findings(check, text) == []


def test_an_interface_that_does_not_exist() -> None:
    # GLOO_SOCKET_IFNAME=eth77 with torch 2.13
    text = (
        "[enforce fail at /pytorch/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: eth77"
    )
    assert "the network interface eth77" in logged(check, raised("RuntimeError", text)).message


def test_infiniband_and_cards_without_direct_transfers() -> None:
    warn = "n1:1:2 [0] misc/ibvwrap.cc:333 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n"
    ended = raised("RuntimeError", "NCCL error: unhandled system error")
    assert "InfiniBand" in logged(check, warn + ended).message
    text = "Using RTX 4000 series doesn't support faster communication broadband via P2P or IB. Please set"
    assert logged(check, raised("NotImplementedError", text)).fixes[0].applicability is Applicability.SAFE


@pytest.mark.parametrize(
    "said",
    [
        "NET/IB : Got completion from peer 10.0.0.2<40001> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        "NET/IB: Got completion from peer 10.0.0.2<40001> with status=12 opcode=0 len=0 vendor err 129 hca mlx5_1",
        "NET/IB: Got completion from peer 10.0.0.2<40001> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)",
        "NET/IB/GIN: Got completion from peer 10.0.0.2<40001> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
    ],
)
def test_a_transfer_that_is_not_answered(said: str) -> None:
    # https://github.com/NVIDIA/nccl/issues/1170
    failed = raised("DistBackendError", "NCCL error: remote process exited or there was a network error")
    warned = f"n1:1:2 [0] transport/net_ib.cc:1298 NCCL WARN {said}\n"
    assert "with 10.0.0.2 fails" in logged(check, warned + failed).message


def test_an_adapter_that_gives_up() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/621
    text = "(LLMRayActor pid=90738, ip=192.0.2.7) mlx5: gpu-07: got completion with error:\n"
    assert "InfiniBand" in logged(check, text).message
    assert [f.code for f in triage_text("The completion: got it with error: none\n").findings] == []


def test_an_address_that_nothing_leads_to() -> None:
    # https://github.com/hkproj/pytorch-transformer-distributed/issues/1
    said = "NCCL error\nLast error:\nsocketStartConnect: Connect to 192.168.19.14<52822> failed : {}"
    error = "torch.distributed.DistBackendError"
    assert "192.168.19.14 (No route to host)" in logged(check, raised(error, said.format("No route to host"))).message
    scoped = said.replace("192.168.19.14", "fe80::1%ib0").format("Network is unreachable")
    assert "fe80::1%ib0 (Network is unreachable)" in logged(check, raised(error, scoped)).message
    assert findings(check, raised(error, said.format("Connection refused"))) == []
