"""Requests whose ``min_tokens`` is set against what the context leaves after their prompt.

Arguments: ``prompt`` (tokens of the longest), ``least`` and ``most`` (tokens to generate), ``requests``. Records:
``limit`` (the engine's longest sequence), ``least``, ``most``, ``prompt_tokens``, ``answers`` (rows as in
``running_engine.rows``, with ``prompt_tokens``), ``reach``. V0's scheduler may not survive it; the
exception then leaves."""

from __future__ import annotations

from typing import Any

from running_engine import RunningEngine


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    limit = running.limit
    length = min(arguments["prompt"], limit - 1)
    for name, value in {"limit": limit, "least": arguments["least"], "most": arguments["most"]}.items():
        running.record(name, value)
    running.record("prompt_tokens", length)
    given = {"temperature": 0.0, "min_tokens": arguments["least"], "max_tokens": arguments["most"], "logprobs": 1}
    # Each a token shorter than the one before: they come to the limit one after another.
    prompts = [running.prompt(max(length - n, 1), salt=n + 1) for n in range(arguments["requests"])]
    asked = {f"request {n}": (prompt, given) for n, prompt in enumerate(prompts)}
    rows = [{**row, "prompt_tokens": len(asked[row["request"]][0])} for row in running.generate(asked)]
    running.record("answers", rows)
    tokens = sum(len(row["token_ids"]) for row in rows)
    running.record("reach", {"requests": len(rows), "sampled_tokens": tokens, "longest": limit})
