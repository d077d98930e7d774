"""What one replica draws for a prompt: right after its boot, and as the launch's requests ask for it.

Arguments: ``seed`` (that the launch gives the engine, or None), ``requests`` (``seeds``, one for each request or None;
``each``, completions of a request; ``prompt`` and ``response`` in tokens) where they are known. Records: ``seed``,
``group`` (rows of what the engine drew first of all, see ``stand.rows``), ``requests`` (rows), ``reach``."""

from __future__ import annotations

import time
from typing import Any

from stand import Stand


def play(stand: Stand, arguments: dict[str, Any]) -> None:
    began = time.monotonic()
    stand.record("seed", arguments["seed"])
    stand.record("group", [row for row in stand.sampled if row["request"] == "group"])
    rows = stand.sampled
    asked = arguments.get("requests")
    if asked:
        told = {"n": asked["each"], "temperature": 1.0, "max_tokens": asked["response"], "logprobs": 1}
        prompt = stand.prompt(asked["prompt"])
        seeds = enumerate(asked["seeds"])
        drawn = stand.generate({f"request {number}": (prompt, {**told, "seed": seed}) for number, seed in seeds})
        stand.record("requests", drawn)
        rows = rows + drawn
    stand.record(
        "reach",
        {
            "completions": len(rows),
            "sampled_tokens": sum(len(row["token_ids"]) for row in rows),
            "ranks": stand.options.get("tensor_parallel_size", 1),
            "seconds": round(time.monotonic() - began, 3),
        },
    )
