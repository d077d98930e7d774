"""Starts the ranks of one tensor parallel engine through the environment's own torchrun, each with an engine object of
its own.

Arguments: ``engine`` (options of vLLM's EngineArgs), ``seeds`` (one for each rank), ``samples``, ``prompt_tokens``,
``max_tokens``, ``time_limit``, ``patience`` (seconds for the tokens alone). Records: ``ranks`` (what each told, see
``peer_rank``, how it ended and its last lines), ``ended`` (``done``, ``failed`` or ``timed-out``), ``launcher`` (the
last lines of torchrun), ``reach``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from collectives import environment, heard, launched, lines
from report import elapsed, emit, run, stage

RANK = Path(__file__).with_name("peer_rank.py")
# What torchrun and the last records need of the time.
MARGIN = 5.0


def main(arguments: dict[str, Any]) -> None:
    ranks = len(arguments["seeds"])
    directory = Path("peers").absolute()
    directory.mkdir()
    limit = max(arguments["time_limit"] - elapsed() - MARGIN, MARGIN)
    reported = {"arguments": {**arguments, "directory": str(directory)}, "time_limit": limit}
    (directory / "arguments.json").write_text(json.dumps(reported))
    stage("ranks")
    began = time.monotonic()
    timed_out, code = launched(command(ranks, directory), environment(()), directory, limit)
    answers = [heard(directory, rank) for rank in range(ranks)]
    done = code == 0 and all(answer["ended"] == "done" for answer in answers)
    # A rank ends itself when its tokens take too long: it waits for one that is elsewhere.
    late = timed_out or any(answer.get("waiting") for answer in answers if answer["ended"] != "done")
    emit("ranks", answers)
    emit("ended", "done" if done else "timed-out" if late else "failed")
    emit("launcher", lines(directory / "torchrun.err"))
    rows = [row for answer in answers for row in answer.get("completions", ())]
    emit(
        "reach",
        {
            "ranks": ranks,
            "completions": len(rows),
            "sampled_tokens": sum(len(row["token_ids"]) for row in rows),
            "seconds": round(time.monotonic() - began, 3),
        },
    )


def command(ranks: int, directory: Path) -> list[str]:
    launcher = [sys.executable, "-u", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return [*launcher, "--redirects=3", f"--log-dir={directory / 'logs'}", str(RANK), str(directory)]


if __name__ == "__main__":
    run(main)
