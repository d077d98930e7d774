"""RLD324: ranks that are expected and ranks that are started."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.devices.world_size import check

from rldoctor.api import Outcome
from tests.checks.launches import finding, judged, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

MISSING = "Timed out after 26 seconds waiting for clients. 2/4 clients joined."


def test_more_nodes_than_there_are() -> None:
    found = finding(check, nodes=1, process__launcher="torchrun", process__nnodes=2)
    assert found.message == "the launcher waits for 2 nodes, and there is 1"
    assert judged(check, nodes=2, process__launcher="torchrun", process__nnodes=2).outcome is Outcome.PASS
    assert judged(check, process__launcher="torchrun", process__nnodes=2).outcome is Outcome.NOT_CHECKED
    assert quiet(check, nodes=1, process__launcher="ray", process__nnodes=2)


def test_processes_that_nodes_cannot_share() -> None:
    plan: dict[str, Any] = {"nodes": 2, "process__launcher": "accelerate", "process__nnodes": 2}
    found = finding(check, **plan, process__total=15)
    assert "starts 7 on each" in found.message
    assert found.fixes[0].edits[0].value == 14
    assert quiet(check, **plan, process__total=16)


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
