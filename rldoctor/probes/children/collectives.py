"""Runs a small job of several ranks through the environment's own torchrun, and where that fails runs it again without
its communication settings.

Arguments: ``ranks``, ``devices`` (a GPU for each rank, none for the CPU), ``backends``, ``seconds`` (what a collective
may take), ``time_limit`` (of all runs). Records: ``settings`` (the environment's communication variables), ``runs`` (a
row each: ``without`` names the variables that were taken away, ``ended``, ``seconds``, ``ranks`` with what each told,
its exit code and its last lines, ``launcher`` the last lines of torchrun)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

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
TAIL_LINES = 30
TAIL_WIDTH = 500


def main(arguments: dict[str, Any]) -> None:
    settings = {n: v for n, v in sorted(os.environ.items()) if n.startswith(SETTINGS) and not TALK.match(n)}
    emit("settings", settings)
    runs: list[dict[str, Any]] = []

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


def job(arguments: dict[str, Any], without: tuple[str, ...], number: int) -> dict[str, Any]:
    """One job of torchrun and what its ranks told."""
    directory = Path(f"run{number}").absolute()
    directory.mkdir()
    limit = min(STARTUP + arguments["seconds"], max(arguments["time_limit"] - elapsed() - 3, 5.0))
    reported = {name: arguments[name] for name in ("backends", "devices", "seconds")}
    reported["directory"] = str(directory)
    (directory / "arguments.json").write_text(json.dumps({"arguments": reported, "time_limit": limit - 1}))
    began = time.monotonic()
    timed_out, code = launched(command(arguments["ranks"], directory), environment(without), directory, limit)
    said = {name: lines(directory / f"torchrun.{name}") for name in ("out", "err")}
    codes = exit_codes((directory / "torchrun.err").read_text(errors="replace"))
    ranks = [{**heard(directory, rank), "exit_code": codes.get(rank)} for rank in range(arguments["ranks"])]
    done = code == 0 and all(rank["ended"] == "done" and not wrong(rank) for rank in ranks)
    return {
        "without": list(without),
        "ended": "done" if done else "timed-out" if timed_out else "failed",
        "seconds": round(time.monotonic() - began, 3),
        "exit_code": code,
        "ranks": ranks,
        "launcher": said["err"] or said["out"],
    }


def command(ranks: int, directory: Path) -> list[str]:
    launcher = [sys.executable, "-u", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
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


def heard(directory: Path, rank: int) -> dict[str, Any]:
    """What one rank told: its records, how it ended, its last lines."""
    reported, end = records(directory / f"rank{rank}.jsonl")
    logs = sorted((directory / "logs").rglob(f"{rank}/std*.log"))
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
