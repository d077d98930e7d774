"""Which nodes run a command at once, and how their children meet."""

from __future__ import annotations

import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case, Level, NotApplicable
from rldoctor.api.probes import Request
from rldoctor.probes.collectives import collectives
from rldoctor.probes.nodes import Nodes, first_host, nodes_at_once
from tests.probes.ranks import NO_GPU

sys.path.insert(0, str(Path(__file__).parents[2] / "rldoctor" / "probes" / "children"))

from meeting import Guest, Host

TORCHRUN = {
    "GROUP_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "gpu07",
    "MASTER_PORT": "29500",
}
SRUN = {
    "SLURM_JOB_ID": "8812",
    "SLURM_STEP_NUM_NODES": "4",
    "SLURM_NODEID": "2",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "gpu[07-09,12]",
}


def test_what_a_launcher_says_of_the_nodes() -> None:
    assert nodes_at_once(TORCHRUN) == Nodes(2, 1, 0, "gpu07", 29501)
    assert nodes_at_once(SRUN) == Nodes(4, 2, 1, "gpu07", 28813)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {**TORCHRUN, "GROUP_WORLD_SIZE": "1"},
        {name: value for name, value in TORCHRUN.items() if name != "MASTER_ADDR"},
        # A batch script, which runs on the first node alone.
        {"SLURM_JOB_ID": "8812", "SLURM_NNODES": "4", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"},
        {**TORCHRUN, "GROUP_RANK": "one"},
    ],
)
def test_a_command_that_runs_here_alone(environment: dict[str, str]) -> None:
    assert nodes_at_once(environment) is None


@pytest.mark.parametrize(
    ("hosts", "first"),
    [("gpu[07-09,12],login1", "gpu07"), ("a,b", "a"), ("n[3]-ib", "n3-ib"), ("10.0.0.7", "10.0.0.7"), ("", "")],
)
def test_the_first_of_a_list_of_hosts(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


def test_one_process_of_each_node_measures() -> None:
    request = Request(level=Level.DEVICES)
    (job,) = collectives.jobs(Case(gpus=NO_GPU, environment=TORCHRUN), request).values()
    assert job.arguments["nodes"] == {
        "count": 2, "number": 1, "local": 0, "address": "gpu07", "port": 29501, "patience": 60.0,
    }  # fmt: skip
    with pytest.raises(NotApplicable):
        collectives.jobs(Case(gpus=NO_GPU, environment=SRUN), request)


def port() -> int:
    with socket.socket() as asking:
        asking.bind(("", 0))
        number: int = asking.getsockname()[1]
        return number


def test_nodes_meet_and_hand_over_what_they_have() -> None:
    at = port()

    def guest(number: int) -> Any:
        came = Guest("127.0.0.1", at, number, 10.0, f"mine {number}")
        came.hand_over([number])
        return came.told

    with ThreadPoolExecutor(3) as pool:
        told = [pool.submit(guest, number) for number in (1, 2)]
        host = Host(at, 3, 10.0, "mine 0")
        host.tell({"port": 5})
        assert host.came == {0: "mine 0", 1: "mine 1", 2: "mine 2"}
        assert host.gather(10.0) == {1: [1], 2: [2]}
        assert [one.result() for one in told] == [{"port": 5}, {"port": 5}]


def test_what_does_not_come_or_is_none_of_ours_is_left_out() -> None:
    at = port()

    def others() -> None:
        for _ in range(100):
            try:
                with socket.create_connection(("127.0.0.1", at)) as stranger:
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    break
            except OSError:
                pass
        Guest("127.0.0.1", at, 1, 10.0, "mine 1")  # and ends without a word

    with ThreadPoolExecutor(1) as pool:
        pool.submit(others)
        host = Host(at, 3, 2.0, "mine 0")
        host.tell({})
        assert sorted(host.came) == [0, 1]
        assert host.gather(2.0) == {}


def test_a_first_node_that_is_not_there() -> None:
    with pytest.raises(OSError, match="refused"):
        Guest("127.0.0.1", port(), 1, 0.3, None)
