"""What one replica draws for a prompt: right after its boot, and as the launch's requests ask for it.

Arguments: ``seed`` (that the launch gives the engine, or None), ``requests`` (``seeds``, one for each request or None;
``each``, completions of a request; ``prompt`` and ``response`` in tokens) where they are known. Records: ``seed``,
``group`` (rows of what the engine drew first of all, see ``running_engine.rows``), ``requests`` (rows), ``reach``."""

from __future__ import annotations

import time
from typing import Any

from running_engine import RunningEngine


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    began = time.monotonic()
    running.record("seed", arguments["seed"])
    running.record("group", [row for row in running.sampled if row["request"] == "group"])
    rows = running.sampled
    asked = arguments.get("requests")
    if asked:
        reported = {"n": asked["each"], "temperature": 1.0, "max_tokens": asked["response"], "logprobs": 1}
        prompt = running.prompt(asked["prompt"])
        seeds = enumerate(asked["seeds"])
        drawn = running.generate({f"request {number}": (prompt, {**reported, "seed": seed}) for number, seed in seeds})
        running.record("requests", drawn)
        rows = rows + drawn
    running.record(
        "reach",
        {
            "completions": len(rows),
            "sampled_tokens": sum(len(row["token_ids"]) for row in rows),
            "ranks": running.options.get("tensor_parallel_size", 1),
            "seconds": round(time.monotonic() - began, 3),
        },
    )
