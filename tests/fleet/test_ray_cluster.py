"""A fleet over a real Ray: several raylets on this machine, one with other variables, one killed, one stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.fleet import ray_cluster
from rldoctor.hang.ray_cluster import asked
from rldoctor.probes.ray_cluster import ray_cluster as probe
from rldoctor.probes.runner import run_job

pytestmark = pytest.mark.ray

CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
skewed = cluster.add_node(num_cpus=1, env_vars={"NCCL_SOCKET_IFNAME": "docker0"})
others = [cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]))]
raylets = [node.all_processes["raylet"][0].process.pid for node in (skewed, *others)]
print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def started(python: Path, folder: Path, others: int, **more: str) -> Iterator[dict[str, Any]]:
    """A cluster of a head, a node with another variable and ``others``: its address, and the raylets behind the
    head's. It ends with its program."""
    command, environ = [str(python), "-c", CLUSTER, str(others)], {**os.environ, **more}
    with (
        (folder / "stderr").open("w+") as errors,
        subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as program,
    ):
        assert program.stdin is not None and program.stdout is not None
        line = program.stdout.readline()
        errors.seek(0)
        assert line, errors.read()
        try:
            yield json.loads(line)
        finally:
            program.stdin.close()
            program.wait(60)


@pytest.fixture(scope="module")
def cluster(python_with_ray: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A cluster of five raylets."""
    with started(python_with_ray, tmp_path_factory.mktemp("ray"), 3) as cluster:
        yield cluster


def asks(cluster: dict[str, Any], python: Path, seconds: int) -> list[str]:
    command = [sys.executable, "-m", "rldoctor", "fleet", "--ray", cluster["address"], "--python", str(python)]
    return [*command, "--time-limit", str(seconds), "--format", "json"]


def fleet(cluster: dict[str, Any], python: Path, seconds: int, code: int, *more: str) -> dict[str, Any]:
    command = [*asks(cluster, python, seconds), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_node_writes_its_bundle_and_the_skewed_one_is_named(
    cluster: dict[str, Any], python_with_ray: Path
) -> None:
    found = fleet(cluster, python_with_ray, 60, 1)
    assert (found["nodes"], len(found["alike"]), found["unread"]) == (5, 4, [])
    (only,) = found["classes"]
    (skew,) = only["differs"]
    assert (len(only["nodes"]), skew["name"], skew["value"]) == (1, "NCCL_SOCKET_IFNAME", "docker0")
    assert skew["codes"] == ["RLD322"]
    assert found["judged"] == []


def test_the_checks_of_a_level_run_on_every_node(cluster: dict[str, Any], python_with_ray: Path) -> None:
    found = fleet(cluster, python_with_ray, 120, 1, "--level", "imports")
    assert found["nodes"] == 5
    everyone = {*found["alike"], *(name for one in found["classes"] for name in one["nodes"])}
    # An environment with Ray and nothing else lacks what a rollout needs: every node says so, in one line.
    said = [one["reason"] for one in found["unread"]]
    answered = {name for one in found["judged"] for name in one["nodes"]}
    assert answered | {one["source"] for one in found["unread"]} == everyone, (said, found["judged"])
    assert all(reason.startswith("level imports: ") for reason in said)


LEFT = """
import sys, ray
ray.init(address=sys.argv[1], namespace="old", log_to_driver=False)
Held = ray.remote(num_cpus=1)(type("Held", (), {"is_up": lambda self: True}))
held = Held.options(name="left", lifetime="detached").remote()
ray.get(held.is_up.remote())
"""


def test_the_cluster_tells_what_a_launch_will_find(cluster: dict[str, Any], python_with_ray: Path) -> None:
    subprocess.run([str(python_with_ray), "-c", LEFT, cluster["address"]], check=True, capture_output=True, timeout=120)
    request = Request(python=python_with_ray, ray=cluster["address"], environ=dict(os.environ))
    (job,) = probe.jobs(Case(), request).values()
    answered = run_job(probe.child, job, "ray-cluster", request)
    found = asked({"ended": answered.ended, "records": answered.records})
    assert answered.records["problems"] == [] and found.ray == found.version
    assert [node["CPU"] for node in found.nodes] == [1.0] * 5
    assert sorted(node.get("CPU", 0.0) for node in found.free) == [0.0, 1.0, 1.0, 1.0, 1.0]
    (left,) = [actor for actor in found.actors if actor.state == "ALIVE" and actor.name == "left"]
    assert (left.namespace, left.holds) == ("old", {"CPU": 1.0})
    assert left.job not in found.jobs  # its driver has ended


def test_nodes_that_die_or_do_not_answer_are_results(cluster: dict[str, Any], python_with_ray: Path) -> None:
    _, killed, stopped, _ = cluster["raylets"]
    os.kill(killed, signal.SIGKILL)
    os.kill(stopped, signal.SIGSTOP)
    try:
        found = fleet(cluster, python_with_ray, 15, 1)
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert found["nodes"] == 3 and len(found["classes"]) == 1
    assert len(found["unread"]) == 2
    assert any("no answer within" in one["reason"] for one in found["unread"])


def asked_on(raylet: int) -> int | None:
    """The process below a raylet, or below what that started, which writes the node's bundle."""
    parents, commands = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    for process, command in commands.items():
        number = process
        while number in parents and number != raylet:
            number = parents[number]
        if number == raylet and "-m rldoctor bundle" in command:
            return process
    return None


def test_of_three_raylets_one_is_skewed_and_one_is_killed_while_it_is_asked(
    python_with_ray: Path, tmp_path: Path
) -> None:
    with started(python_with_ray, tmp_path, 1) as cluster:
        _, victim = cluster["raylets"]
        command = asks(cluster, python_with_ray, 30)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
            end = time.monotonic() + 120
            while (writer := asked_on(victim)) is None:
                assert asking.poll() is None and time.monotonic() < end, asking.communicate()
                time.sleep(0.02)
            os.kill(writer, signal.SIGSTOP)
            os.kill(victim, signal.SIGKILL)
            out, err = asking.communicate(timeout=240)
    assert asking.returncode == 1, err
    found = json.loads(out)
    assert found["nodes"] == 2 and len(found["unread"]) == 1, found
    assert len(found["unread"][0]["reason"].splitlines()) == 1
    # Of two that are left neither is the usual one: the difference is said all the same. Nodes that share a machine see
    # each other's Rays, the one that is killed meanwhile too.
    skews = {skew["name"] for one in found["classes"] for skew in one["differs"]}
    assert skews - {"Ray instances"} == {"NCCL_SOCKET_IFNAME"}


def test_where_no_cluster_is_it_is_said_in_a_line(python_with_ray: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing answers at 127\.0\.0\.1:1") as raised:
        ray_cluster.collect("127.0.0.1:1", python_with_ray, tmp_path, 10, os.environ)
    assert len(str(raised.value).splitlines()) == 1


def test_an_interpreter_without_ray_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this interpreter has no Ray"):
        ray_cluster.collect("auto", Path(sys.executable), tmp_path, 10, os.environ)


TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def guarded(python_with_ray: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster that asks for a token."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    with started(python_with_ray, tmp_path_factory.mktemp("ray"), 1, **token) as cluster:
        yield cluster["address"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "asks for a token, and RAY_AUTH_MODE is not token here"),
        ({"RAY_AUTH_MODE": "token"}, "RAY_AUTH_MODE is token, and there is no token in RAY_AUTH_TOKEN"),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN[::-1]}, "does not take the token"),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/nowhere"}, "file cannot be opened or is empty: /nowhere"),
    ],
)
def test_a_cluster_that_does_not_take_this_process(
    guarded: str, environ: dict[str, str], said: str, python_with_ray: Path, tmp_path: Path
) -> None:
    mine = {**os.environ, "HOME": str(tmp_path), **environ}
    with pytest.raises(InputError) as raised:
        ray_cluster.collect(guarded, python_with_ray, tmp_path, 20, mine)
    assert said in str(raised.value) and len(str(raised.value).splitlines()) == 1
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("kept", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_a_token_opens_the_cluster(guarded: str, kept: str, python_with_ray: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    mine = {**os.environ, "RAY_AUTH_MODE": "token", kept: TOKEN if kept == "RAY_AUTH_TOKEN" else str(file)}
    request = Request(python=python_with_ray, ray=guarded, environ=mine)
    (job,) = probe.jobs(Case(), request).values()
    answered = run_job(probe.child, job, "ray-cluster", request)
    assert answered.records["problems"] == [] and len(answered.records["nodes"]) == 3


def test_what_answers_and_is_no_ray(python_with_ray: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InputError, match=f"what answers at {address} is no Ray head, or one that wants TLS"):
            ray_cluster.collect(address, python_with_ray, tmp_path, 10, os.environ)
