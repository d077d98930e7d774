"""Runs a small job of several ranks through the environment's own torchrun, and where that fails runs it again without
its communication settings.

Arguments: ``ranks``, ``devices`` (a GPU for each rank, none for the CPU), ``backends``, ``seconds`` (what a collective
may take), ``time_limit`` (of all runs), ``nodes`` (where the same command runs on several at once: ``count``,
``number`` of this one, ``address`` and ``port`` where they meet, ``patience`` in seconds; then there is one run over
all of them, with all settings, and ``ranks`` and ``devices`` are this node's). Records: ``settings`` (the
environment's communication variables), ``runs`` (a row each: ``without`` names the variables that were taken away,
``ended``, ``seconds``, ``ranks`` with what each told, its exit code and its last lines, ``launcher`` the last lines of
torchrun), ``nodes`` (``count``, ``number``, ``address``, ``port``, ``seconds``, ``hosts`` by the number of each that
came, ``problem`` where a node did not reach the first, or their devices differ). Of several nodes only the first
records runs, of all ranks."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from meeting import Guest, Host
from report import elapsed, emit, run, stage

RANK = Path(__file__).with_name("collective_rank.py")
# What decides how ranks reach each other; see NCCL's and torch's lists of environment variables.
SETTINGS = ("NCCL_", "GLOO_", "TP_SOCKET_", "TORCH_NCCL_", "TORCH_GLOO_", "UCX_", "FI_")
# These only make it talk, or would write files of their own.
TALK = re.compile(r"NCCL_DEBUG|NCCL_\w*DUMP|NCCL_VERSION|TORCH_NCCL_(?:DEBUG|TRACE|DUMP|DESYNC|ENABLE_TIMING)")
FILES = ("NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
# Likelier than the others to be why nothing goes through.
SUSPECTS = ("SOCKET_IFNAME", "NCCL_NET", "NCCL_IB_", "NCCL_P2P_", "NCCL_SHM_", "NCCL_")
# Starting torch takes seconds, on a network drive many.
STARTUP = 60.0
MOST_RUNS = 6
# What the ranks of another node told arrives within this, once they have ended.
HANDOVER = 5.0
TAIL_LINES = 30
TAIL_WIDTH = 500


def main(arguments: dict[str, Any]) -> None:
    settings = {n: v for n, v in sorted(os.environ.items()) if n.startswith(SETTINGS) and not TALK.match(n)}
    emit("settings", settings)
    runs: list[dict[str, Any]] = []
    if arguments.get("nodes"):
        emit("runs", over_nodes(arguments))
        return

    def attempt(without: tuple[str, ...]) -> bool:
        stage("without " + ", ".join(without) if without else "as set")
        runs.append(job(arguments, without, len(runs)))
        emit("runs", runs)
        return bool(runs[-1]["ended"] == "done")

    def time_left() -> bool:
        slowest = max(run["seconds"] for run in runs)
        return len(runs) < MOST_RUNS and elapsed() + slowest + 5 < arguments["time_limit"]

    if attempt(()) or not settings or not time_left() or not attempt(tuple(settings)) or len(settings) == 1:
        return
    for name in sorted(settings, key=suspicion):
        if not time_left() or attempt((name,)):
            return


def suspicion(name: str) -> tuple[int, str]:
    return next((place for place, part in enumerate(SUSPECTS) if part in name), len(SUSPECTS)), name


def over_nodes(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """One job over all nodes, where all came; the first node's answer holds what all ranks told."""
    nodes = arguments["nodes"]
    stage("meeting the other nodes")
    mine = {"ranks": arguments["ranks"], "backends": arguments["backends"], "host": socket.gethostname()}
    facts: dict[str, Any] = {
        "count": nodes["count"],
        "number": nodes["number"],
        "address": nodes["address"],
        "port": nodes["port"],
    }
    began = time.monotonic()
    if nodes["number"]:
        try:
            guest = Guest(nodes["address"], nodes["port"], nodes["number"], nodes["patience"], mine)
        except (OSError, ValueError) as error:
            emit("nodes", {**facts, "seconds": round(time.monotonic() - began, 3), "problem": str(error)})
            return []
        emit("nodes", {**facts, "hosts": guest.told["hosts"], "seconds": round(time.monotonic() - began, 3)})
        if guest.told["port"] is not None:
            guest.hand_over(job(arguments, (), 0, guest.told)["ranks"])
        return []
    host = Host(nodes["port"], nodes["count"], nodes["patience"], mine)
    hosts = {str(number): said["host"] for number, said in sorted(host.came.items())}
    unlike = [number for number, said in sorted(host.came.items()) if said["backends"] != arguments["backends"]]
    problem = f"node {unlike[0]} has other free devices than node 0" if unlike else None
    emit("nodes", {**facts, "hosts": hosts, "seconds": round(time.monotonic() - began, 3), "problem": problem})
    whole = len(hosts) == nodes["count"] and not unlike
    counts = [host.came[number]["ranks"] for number in range(nodes["count"])] if whole else []
    starts = [sum(counts[:number]) for number, _ in enumerate(counts)]
    plan: dict[str, Any] = {"hosts": hosts, "port": free_port() if whole else None, "starts": starts}
    host.tell(plan)
    if not whole:
        return []
    row = job(arguments, (), 0, plan)
    stage("hearing the other nodes")
    # A rank that hangs is given up there when the time of a job is over.
    left = arguments["time_limit"] - elapsed() - 2
    found = host.gather(max(min(STARTUP + arguments["seconds"] - row["seconds"] + HANDOVER, left), HANDOVER))
    for number, count in enumerate(counts[1:], 1):
        absent = [
            {"rank": plan["starts"][number] + local, "ended": "absent", "exit_code": None, "tail": []}
            for local in range(count)
        ]
        row["ranks"] += [{**rank, "node": number} for rank in found.get(number, absent)]
    if row["ended"] == "done" and not all(rank["ended"] == "done" and not wrong(rank) for rank in row["ranks"]):
        row["ended"] = "failed"
    return [row]


def free_port() -> int:
    with socket.socket() as asking:
        asking.bind(("", 0))
        port: int = asking.getsockname()[1]
        return port


def job(
    arguments: dict[str, Any], without: tuple[str, ...], number: int, plan: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One job of torchrun and what its ranks told. ``plan``: what the nodes agreed on, the number of each one's first
    rank among it; then this starts the ranks of one node."""
    directory = Path(f"run{number}").absolute()
    directory.mkdir()
    first = plan["starts"][arguments["nodes"]["number"]] if plan is not None else 0
    limit = min(STARTUP + arguments["seconds"], max(arguments["time_limit"] - elapsed() - 3, 5.0))
    reported = {name: arguments[name] for name in ("backends", "devices", "seconds")}
    reported.update(directory=str(directory), starts=plan["starts"] if plan is not None else [])
    (directory / "arguments.json").write_text(json.dumps({"arguments": reported, "time_limit": limit - 1}))
    began = time.monotonic()
    where = ["--standalone"] if plan is None else together(arguments["nodes"], plan)
    started = command(arguments["ranks"], directory, where)
    timed_out, code = launched(started, environment(without), directory, limit)
    said = {name: lines(directory / f"torchrun.{name}") for name in ("out", "err")}
    codes = exit_codes((directory / "torchrun.err").read_text(errors="replace"))
    ranks = [
        {**heard(directory, first + local, local), "exit_code": codes.get(first + local)}
        for local in range(arguments["ranks"])
    ]
    if plan is not None:
        ranks = [{**rank, "node": arguments["nodes"]["number"]} for rank in ranks]
    done = code == 0 and all(rank["ended"] == "done" and not wrong(rank) for rank in ranks)
    return {
        "without": list(without),
        "ended": "done" if done else "timed-out" if timed_out else "failed",
        "seconds": round(time.monotonic() - began, 3),
        "exit_code": code,
        "ranks": ranks,
        "launcher": said["err"] or said["out"],
    }


def together(nodes: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    """torchrun's options for one agent of several."""
    meeting = [f"--master-addr={nodes['address']}", f"--master-port={plan['port']}"]
    return [f"--nnodes={nodes['count']}", f"--node-rank={nodes['number']}", *meeting]


def command(ranks: int, directory: Path, where: list[str]) -> list[str]:
    launcher = [sys.executable, "-u", "-m", "torch.distributed.run", *where, f"--nproc-per-node={ranks}"]
    # Port and store of its own: what the launch's own port is used for now is no concern of this.
    return [*launcher, "--redirects=3", f"--log-dir={directory / 'logs'}", str(RANK), str(directory)]


def environment(without: tuple[str, ...]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (*without, *FILES)}
    # NCCL says why it fails only at this level; torchrun warns where the number of threads is left open.
    return {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1", **kept}


def launched(command: list[str], environ: Mapping[str, str], directory: Path, limit: float) -> tuple[bool, int | None]:
    """Whether the job was cut off at its time limit, and its exit code. Nothing of it is left running."""
    with (directory / "torchrun.out").open("wb") as out, (directory / "torchrun.err").open("wb") as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(environ), cwd=directory
        )
        try:
            return False, process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True, None
        finally:
            for path in directory.glob("rank*.jsonl"):
                pid = records(path)[0].get("place", {}).get("pid")
                with suppress(OSError, TypeError):
                    os.kill(pid, signal.SIGKILL)


def heard(directory: Path, rank: int, local: int | None = None) -> dict[str, Any]:
    """What one rank told: its records, how it ended, its last lines. ``local``: its number on its node, where that is
    another."""
    reported, end = records(directory / f"rank{rank}.jsonl")
    logs = sorted((directory / "logs").rglob(f"{rank if local is None else local}/std*.log"))
    ended = "absent" if not reported else "died" if end is None else end["end"]
    return {
        "rank": rank,
        **reported,
        "ended": ended,
        "tail": [line for log in logs for line in lines(log)][-TAIL_LINES:],
    }


def records(path: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    reported: dict[str, Any] = {}
    end = None
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # a rank that was killed in the middle of a line
        if "end" in said:
            end = said
        else:
            reported[said["name"]] = said["value"]
    return reported, end


def wrong(rank: Mapping[str, Any]) -> int:
    """How many numbers of a rank's collectives and copies came out wrong."""
    reported = [rank.get("peer", {}), *rank.get("collectives", ())]
    return sum(int(one.get("wrong", 0)) for one in reported)


def lines(path: Path) -> list[str]:
    """The last lines of a file."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return [line.rstrip()[:TAIL_WIDTH] for line in text.splitlines() if line.strip()][-TAIL_LINES:]


def exit_codes(text: str) -> dict[int, int]:
    """What torchrun's summary says of each rank that failed."""
    found = re.findall(r"rank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: (-?\d+)", text)
    return {int(rank): int(code) for rank, code in found}


if __name__ == "__main__":
    run(main)
