"""Looks for named actors of a Ray of its own from another process, as an engine's executor does: without an address,
with one, and with one but without the namespace.

The Ray, and any other that a look-up starts, lives below a folder of this child's and ends with it; no cluster of the
machine is joined, since addresses are looked for below ``RAY_TMPDIR`` alone. A worker of Ray starts the process that
looks, as a trainer's worker starts the engine's."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from typing import Any

from report import emit, folder_beside, run

NAMESPACE = "trainer"
ACTOR = "worker_"
MEMORY = 100 << 20  # the smallest object store that Ray accepts is 75 MiB

# What the engine's process does: ``ray.init`` with what it was given, then the names of its namespace.
LOOKS = """
import json, sys, ray
given = json.loads(sys.argv[1])
try:
    ray.init(log_to_driver=False, **given)
    names = [name for name in ray.util.list_named_actors() if name.startswith("worker_")]
    said = {"address": ray.get_runtime_context().gcs_address, "found": len(names)}
except BaseException as error:
    said = {"error": f"{type(error).__name__}: {error}"[:500]}
print("\\n" + json.dumps(said), flush=True)
ray.shutdown()
"""


def main(arguments: dict[str, Any]) -> None:
    folder = folder_beside()  # paths of sockets are short
    for name in ("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_AUTH_TOKEN_PATH"):
        os.environ.pop(name, None)
    # From 2.60 a Ray that is started makes a token where there is none, in the user's home, where it opens more than
    # this Ray: a cluster of the machine would ask for it from then on.
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    os.environ.update(RAY_TMPDIR=folder, RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")
    try:
        _look(arguments["actors"], arguments["seconds"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _look(count: int, seconds: float) -> None:
    import ray

    emit("version", ray.__version__)
    ray.init(
        address="local", num_cpus=1, num_gpus=0, object_store_memory=MEMORY, include_dashboard=False,
        namespace=NAMESPACE, log_to_driver=False,
    )  # fmt: skip
    address = ray.get_runtime_context().gcs_address
    emit("made", {"actors": count, "address": address})

    @ray.remote(num_cpus=0)
    class Worker:
        def is_up(self) -> bool:
            return True

        def looks(self, given: dict[str, Any], environ: dict[str, str]) -> dict[str, Any]:
            return _looked(given, environ, seconds)

    made: Any = Worker
    workers = [made.options(name=f"{ACTOR}{number}").remote() for number in range(count)]
    ray.get([worker.is_up.remote() for worker in workers], timeout=seconds)
    ways: dict[str, dict[str, Any]] = {}
    for way, given, environ in (
        ("no address", {"namespace": NAMESPACE}, {}),
        ("address", {"namespace": NAMESPACE}, {"RAY_ADDRESS": address}),
        ("no namespace", {}, {"RAY_ADDRESS": address}),
    ):
        ways[way] = ray.get(workers[0].looks.remote(given, environ), timeout=2 * seconds)
        emit("ways", ways)
    ray.shutdown()


def _looked(given: dict[str, Any], environ: dict[str, str], seconds: float) -> dict[str, Any]:
    """What one process found, by itself."""
    command = [sys.executable, "-c", LOOKS, json.dumps(given)]
    try:
        done = subprocess.run(
            command, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=seconds, check=False, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {seconds:g} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    return {"error": done.stdout[-500:] or f"it ended with {done.returncode}"}


if __name__ == "__main__":
    run(main)
