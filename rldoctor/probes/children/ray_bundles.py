"""Has every node of a Ray cluster write its bundle, and run the checks of a level where one is asked for: one task on
each, bounded in time, tried twice.

A node that is dead, does not answer or has no rldoctor is a result like any other."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ray_door
from report import emit, run

_TRIES = 2
# Clocks that are kept by a network of machines agree to much less (seconds).
_NOTICED = 0.5
_PR_SET_PDEATHSIG = 1


def main(arguments: dict[str, Any]) -> None:
    import ray

    emit("version", ray.__version__)
    address = ray_door.found(arguments["address"])
    ray_door.reach(address)
    if not address.startswith(ray_door.CLIENT):
        _alike(address, ray_door.started(address))
    ray.init(address=address, namespace="rldoctor", log_to_driver=False, logging_level="ERROR")
    nodes = {node["NodeID"]: node for node in ray.nodes()}
    alive = {name: node for name, node in nodes.items() if node.get("Alive", node.get("alive"))}
    lost = [_lost(nodes[name], "Ray counts it as dead") for name in nodes.keys() - alive.keys()]
    asked = {"seconds": float(arguments["seconds"]), "level": arguments["level"], "checks": arguments["checks"]}
    answers = _gathered(alive, arguments["interpreters"], asked, lost)
    bundles = {node: _with_offset(one["bundle"], *one["times"]) for node, one in answers.items()}
    names = _written(bundles, Path(arguments["folder"]))
    emit("reports", {names[node]: one["report"] for node, one in answers.items() if "report" in one})
    emit("lost", lost)


def _alike(address: str, there: dict[str, str]) -> None:
    """Ray joins no cluster of another release; it says so after a while, in many lines."""
    import ray

    here = {"ray": ray.__version__, "python": platform.python_version()}
    if there["ray"] and there["ray"] != here["ray"]:
        raise ConnectionError(
            f"the cluster at {address} runs Ray {there['ray']} on Python {there['python']}, this interpreter has Ray "
            f"{here['ray']} on Python {here['python']}; name the cluster's own (--python PATH)"
        )


def _gathered(
    alive: dict[str, Any], interpreters: list[str], asked: dict[str, Any], lost: list[dict[str, str]]
) -> dict[str, dict[str, Any]]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(_looked)
    seconds = asked["seconds"] + (asked["checks"] if asked["level"] else 0.0)

    def ask(node: str) -> Any:
        there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        return task.options(scheduling_strategy=there).remote([*interpreters, None], asked)

    waiting = {ask(node): (node, 1, time.time()) for node in alive}
    answers: dict[str, dict[str, Any]] = {}
    # A worker must start before its task does, and the second try gets as long as the first.
    deadline = time.monotonic() + _TRIES * seconds + 10
    while waiting and time.monotonic() < deadline:
        done, _ = ray.wait(list(waiting), timeout=min(1.0, max(0.0, deadline - time.monotonic())))
        for reference in done:
            node, tries, sent = waiting.pop(reference)
            try:
                reported = ray.get(reference, timeout=5)
            except ray.exceptions.TaskUnschedulableError:
                reported = {"reason": "the node is gone"}
            except Exception as error:
                reported = {"reason": _first_line(error)}
            if "bundle" in reported:
                answers[node] = {**reported, "times": (sent, reported["began"], reported["ended"], time.time())}
            elif tries < _TRIES:
                waiting[ask(node)] = (node, tries + 1, time.time())
            else:
                lost.append(_lost(alive[node], reported["reason"]))
    for node, _, _ in waiting.values():
        lost.append(_lost(alive[node], f"no answer within {_TRIES * seconds + 10:.0f} s"))
    return answers


def _looked(interpreters: list[str | None], asked: dict[str, Any]) -> dict[str, Any]:
    """Runs on a node: the first interpreter there that has rldoctor writes the bundle, and runs the checks; None is the
    worker's own."""
    reason, began = "rldoctor is not installed on this node", time.time()
    end = time.monotonic() + asked["seconds"]
    environ = dict(os.environ)
    if not environ.get("CUDA_VISIBLE_DEVICES"):
        environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray hides the devices from what asks for none

    def ends_with_us() -> None:
        """Where rldoctor is killed, Ray ends its workers; what a worker started would go on."""
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def run(python: str, seconds: float, *command: str) -> tuple[int | None, str, str]:
        started = subprocess.Popen(
            [python, "-m", "rldoctor", *command, "--python", sys.executable], env=environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=ends_with_us,
        )  # fmt: skip
        try:
            out, err = started.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.communicate()
            return None, "", ""
        return started.returncode, out, err

    for python in [one or sys.executable for one in interpreters]:
        try:
            code, bundle, err = run(python, end - time.monotonic(), "bundle")
        except OSError:
            continue  # no such interpreter on this node
        if code is None:
            return {"reason": f"no bundle within {asked['seconds']:.0f} s"}
        if code == 0 and asked["level"]:
            code, out, err = run(python, asked["checks"], "check", "--level", asked["level"], "--format", "json")
            try:
                return {"bundle": bundle, "report": json.loads(out), "began": began, "ended": time.time()}
            except ValueError:
                said = (err.strip().splitlines() or [f"no answer within {asked['checks']:.0f} s"])[-1]
                return {"bundle": bundle, "report": {"reason": said}, "began": began, "ended": time.time()}
        if code == 0:
            return {"bundle": bundle, "began": began, "ended": time.time()}
        if "No module named" not in err:
            reason = (err.strip().splitlines() or [f"exit status {code}"])[-1]
    return {"reason": reason}


def _with_offset(bundle: str, sent: float, began: float, ended: float, received: float) -> str:
    """The bundle with what is sure of the node's clock: it began after it was asked and ended before it had answered,
    by any right clock. ``began`` and ``ended`` are the node's own."""
    least, most = ended - received, began - sent
    sure = least if least > 0 else most if most < 0 else 0.0
    read = json.loads(bundle)
    _node(read)["clock_offset"] = round(sure, 1) if abs(sure) >= _NOTICED else 0.0
    return json.dumps(read)


def _written(bundles: dict[str, str], folder: Path) -> dict[str, str]:
    """Writes the bundles, and what each node is called; where several nodes of Ray share a machine, the node's id
    tells them apart."""
    read = {name: json.loads(text) for name, text in bundles.items()}
    hosts = [_node(bundle).get("host") for bundle in read.values()]
    names = {}
    for name, bundle in read.items():
        node = _node(bundle)
        if hosts.count(node.get("host")) > 1:
            node["host"] = f"{node.get('host')}-{name[:8]}"
        names[name] = str(node.get("host") or name)
        (folder / f"{names[name]}.json").write_text(json.dumps(bundle))
    return names


def _node(bundle: dict[str, Any]) -> dict[str, Any]:
    found = bundle.get("node")
    return found if isinstance(found, dict) else {}


def _lost(node: dict[str, Any], reason: str) -> dict[str, str]:
    name = node.get("NodeManagerHostname") or node.get("NodeManagerAddress") or "a node"
    return {"source": f"{name}-{node['NodeID'][:8]}", "reason": reason}


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


if __name__ == "__main__":
    run(main)
