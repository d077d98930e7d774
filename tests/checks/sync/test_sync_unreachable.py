"""RLD406: the port and the group of weight sync."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.sync.sync_unreachable import check

from rldoctor.api import Outcome, Severity
from rldoctor.logs.triage import triage_text
from tests.checks.launches import LaunchFile, finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised
from tests.logs.raising import traceback

PORT: dict[str, Any] = {"sync__port": 51216}
CLIENT = "/opt/venv/lib/python3.10/site-packages/swift/trainers/rlhf_trainer/vllm_client.py init_communicator"


def test_one_port_for_two() -> None:
    assert "the server's HTTP port too" in finding(check, sync__port=8000, placement__server_port=8000).message
    assert "rendezvous too" in finding(check, sync__port=29500, process__master_port=29500).message
    assert quiet(check, sync__port=51216, placement__server_port=8000)
    assert finding(check, sync__port=8080, placement__server_port=[8000, 8080]).fixes[0].edits[0].value == 51216


def test_a_port_that_another_run_holds() -> None:
    assert finding(check, **PORT, ports=(51216,)).severity is Severity.WARNING
    assert judged(check, **PORT, ports=(22,)).outcome is Outcome.PASS
    assert quiet(check, **PORT, ports=(51216,), placement__server_host="10.0.0.7")


@pytest.mark.parametrize(
    ("second", "between", "fires"),
    [(8000, "&\n", True), (8001, "&\n", False), (8000, "&\nwait\n", False), (8000, "\n", False)],
)
def test_two_trainers_at_the_same_time_ask_one_server(second: int, between: str, fires: bool, tmp_path: Path) -> None:
    start = "CUDA_VISIBLE_DEVICES={0} accelerate launch --num_processes 1 --main_process_port 2950{0} t{0}.py "
    for number, port in ((1, 8000), (2, second)):
        text = f"from trl import GRPOConfig\nGRPOConfig(use_vllm=True, vllm_mode='server', vllm_server_port={port})\n"
        (tmp_path / f"t{number}.py").write_text(text)
    run = LaunchFile(tmp_path, start.format(1) + between + start.format(2) + "\n", {"trl": "0.24.0"}, gpus=4)
    assert [("asks the same server" in found.message) for found in run.findings(check)] == [True] * fires


def test_the_nodes_of_one_trainer_ask_one_server(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("from trl import GRPOConfig\nGRPOConfig(use_vllm=True, vllm_mode='server')\n")
    start = "srun -N1 -w n{0} accelerate launch --num_machines 2 --machine_rank {0} --num_processes 16 t.py"
    run = LaunchFile(tmp_path, f"{start.format(0)} &\n{start.format(1)}\n", {"trl": "0.24.0"}, gpus=8)
    assert run.findings(check) == []


def test_the_clients_socket_times_out() -> None:
    # https://github.com/modelscope/ms-swift/issues/6244
    text = "The client socket has timed out after 300000ms while trying to connect to (127.0.0.1, 51216)."
    log = raised("torch.distributed.DistNetworkError", text)
    assert "127.0.0.1, port 51216" in logged(check, log).message
    assert [found.code for found in triage_text(log).findings] == ["RLD406"]


def test_another_port_is_known_by_its_function() -> None:
    text = "The client socket has timed out after 300000ms while trying to connect to (10.0.0.7, 41000)."
    assert "10.0.0.7, port 41000" in logged(check, raised("torch.distributed.DistNetworkError", text, CLIENT)).message
    assert findings(check, raised("torch.distributed.DistNetworkError", text)) == []


def test_the_port_is_taken() -> None:
    text = "The server socket has failed to listen on any local network address. port: 51216, useIpv6: false, code: -98"
    assert "port 51216 is in use" in logged(check, raised("torch.distributed.DistNetworkError", text)).message


def test_an_event_loop_that_stands() -> None:
    # https://github.com/PrimeIntellect-ai/prime-rl/issues/1713
    ended = raised("TimeoutError", "")
    assert "187 s late" in logged(check, "step 12 | event_loop_lag/max: 187.2 | reward 0.4\n" + ended).message
    assert findings(check, "step 12 | event_loop_lag/max: 0.4 | reward 0.4\n" + ended) == []


def test_an_update_that_outlasts_its_request() -> None:
    # https://github.com/PrimeIntellect-ai/prime-rl/issues/1119
    frame = "prime_rl/utils/client.py update_weights"
    assert "did not answer update_weights" in logged(check, traceback("httpx.ReadTimeout", frame)).message
    assert findings(check, traceback("httpx.ReadTimeout", "httpx/_client.py post")) == []


def test_a_transfer_of_mooncake_that_failed() -> None:
    # https://github.com/MoonshotAI/checkpoint-engine/issues/3
    text = traceback(
        "AssertionError",
        "checkpoint_engine/ps.py batch_transfer_sync_read",
        code="assert self.engine.batch_transfer_sync_read(host, buf_ptrs, remote_ptrs, lens) == 0",
    )
    assert "Mooncake could not move data" in logged(check, text).message
