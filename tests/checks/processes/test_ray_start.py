"""RLD611: Ray does not start on a node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rldoctor_checks.processes.ray_start import check

from rldoctor.case import Node, RayInstance
from rldoctor.judge import judge_one
from tests.cases import host
from tests.checks.launches import LaunchFile
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY

RAY = "/opt/venv/lib/python3.11/site-packages/ray/_private"
SOCKET = "/mnt/ray/sockets/plasma_store"
SLOW = "Timed out after {} seconds while waiting for node to startup. Did not find socket name " + SOCKET
GONE = "The current node timed out during startup. This could happen because some of the raylet failed to startup"


@pytest.mark.parametrize("seconds", [30, 60])
def test_the_raylet_does_not_come_up(seconds: int) -> None:
    found = finding(check, raised("TimeoutError", SLOW.format(seconds), f"{RAY}/services.py wait_for_node"))
    assert "/mnt/ray/sockets/plasma_store" in found.message
    assert any("raylet.out" in command for fix in found.fixes for command in fix.commands)


def test_older_words() -> None:
    assert "did not come up" in finding(check, raised("Exception", GONE, f"{RAY}/node.py __init__")).message


def test_the_path_is_too_long() -> None:
    text = raised(
        "OSError", f"validate_socket_filename failed: AF_UNIX path length cannot exceed 107 bytes: /{'n' * 110}"
    )
    assert "longer than 107 bytes" in finding(check, text).message


def test_one_runs_already() -> None:
    text = raised(
        "ConnectionError",
        "Ray is trying to start at 10.0.0.4:6379, but is already running at 10.0.0.4:6379. Please specify another",
        f"{RAY}/../scripts/scripts.py start",
    )
    assert "runs already at 10.0.0.4:6379" in finding(check, text).message


def test_processes_ended() -> None:
    text = "10:00:00,001 ERR scripts.py:97 -- Some Ray subprocesses exited unexpectedly:\n  raylet [exit code=1]\n"
    assert "raylet, exit code 1" in finding(check, text).message


@pytest.mark.parametrize(
    "text",
    [
        "INFO waiting for node to startup\n" + HEALTHY,
        raised("TimeoutError", "Timed out after 30 seconds while waiting for the dashboard."),
    ],
)
def test_quiet(text: str) -> None:
    assert findings(check, text) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("RuntimeError: Request failed with status code 500: No available agent to submit job, try again.", "no agent"),
        ("AssertionError: Session name session_b does not match persisted value b'session_a'. Perhaps", "session_a"),
        ("ConnectionError: Failed to connect to Ray at address: http://127.0.0.1:8265.", "127.0.0.1:8265"),
        (
            "(raylet) [2025-08-29 23:28:23,623 E 27 27] (raylet) worker_pool.cc:586: Some workers of the worker "
            "process(276) have not registered within the timeout. The process is still alive, probably it's hanging",
            "pid 276",
        ),
        (
            "ValueError: Ray component metrics_export is trying to use a port number 15731 that is used by other "
            "components.",
            "port 15731",
        ),
    ],
)
def test_what_clients_and_raylets_say(line: str, says: str) -> None:
    assert says in finding(check, f"{line}\n").message
    assert not findings(check, HEALTHY + f"{{'completion': '{line[:60]}'}}\n")


STARTS = "{}\npython3 -m verl.trainer.main_ppo trainer.nnodes=1 actor_rollout_ref.model.path=m\n"


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("ray start --head --port=12345", "--port 12345 is among the ports of Ray's workers"),
        ("ray start --head --dashboard-port 6379", "--dashboard-port 6379 is --port as well"),
        (
            "ray start --head --dashboard-agent-listen-port=8265",
            "--dashboard-port 8265 is --dashboard-agent-listen-port as well",
        ),
        ("ray start --address=10.0.0.4:6379 --object-manager-port 12000", "--object-manager-port 12000 is among"),
        ("ray start --head --min-worker-port 30000", "end at 19999, before they begin at 30000"),
        ("ray start --head --min-worker-port 8000 --max-worker-port 9000", "--dashboard-port 8265 is among"),
        ("ray start --head --num-cpus 64 --min-worker-port 20000 --max-worker-port 20010", "have 11 ports on a node"),
    ],
)
def test_ports_that_ray_start_refuses_or_that_run_out(tmp_path: Path, start: str, says: str) -> None:
    (found,) = LaunchFile(tmp_path, STARTS.format(start), {"verl": "0.7.0"}).findings(check)
    assert says in found.message and found.evidence[0].line == 1


@pytest.mark.parametrize(
    "start",
    [
        "ray start --head",
        "ray start --head --port=6380 --dashboard-port=8266 --num-cpus=64",
        "ray start --head --port=$PORT --dashboard-port 6379",
        "ray start --head --port=12345 --min-worker-port=20000 --max-worker-port=30000",
        "ray start --head --port=12345 --worker-port-list=20000,20001",
        "ray start --head --port=12345 --min-worker-port=0 --max-worker-port=0",
        "ray start --address=10.0.0.4:12345",
    ],
)
def test_ports_that_ray_takes(tmp_path: Path, start: str) -> None:
    assert not LaunchFile(tmp_path, STARTS.format(start), {"verl": "0.7.0"}).findings(check)


@pytest.mark.parametrize(
    ("start", "taken", "fires"),
    [
        ("ray start --head", 6379, True),
        ("ray start --head", 8265, True),
        ("ray start --head", 22, False),
        ("ray start --address=10.0.0.4:6379", 6379, False),
        ("ssh node1 ray start --head", 6379, False),
        ("ray stop --force\nsleep 3\nray start --head", 6379, False),
        ("ssh node1 ray stop\nray start --head", 6379, True),
        ("ray start --head\nray stop", 6379, True),
    ],
)
def test_a_port_of_the_head_is_taken_here(tmp_path: Path, start: str, taken: int, fires: bool) -> None:
    (case,) = LaunchFile(tmp_path, STARTS.format(start), {"verl": "0.7.0"}).cases()
    found = judge_one(check, replace(case, host=host(listening_ports=(taken,)))).findings
    assert [str(taken) in one.message for one in found] == ([True] if fires else [])


@pytest.mark.parametrize(("address", "known"), [("10.0.0.4:6379", True), ("10.0.0.4:6380", False)])
def test_who_has_the_port_is_said_where_it_is_a_ray(tmp_path: Path, address: str, known: bool) -> None:
    (case,) = LaunchFile(tmp_path, STARTS.format("ray start --head"), {"verl": "0.7.0"}).cases()
    node = Node(host="n", time=0.0, ray=(RayInstance(pid=99, address=address, session="session_1"),))
    (found,) = judge_one(check, replace(case, host=host(listening_ports=(6379,)), node=node)).findings
    assert found.message.startswith("a Ray on" if known else "a process on")
    assert [one.source for one in found.evidence if one.text == f"session_1, at {address}"] == [
        "raylet, pid 99"
    ] * known
    asks = [command for fix in found.fixes for command in fix.commands if command.startswith("ss ")]
    assert asks == ([] if known else ["ss -ltnp | grep 6379"])
