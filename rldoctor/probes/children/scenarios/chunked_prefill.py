"""Long prompts that arrive while others decode, more of them than the KV cache holds, some aborted in mid-flight.

Arguments: ``prompt`` and ``response`` (tokens, the longest that the launch plans), ``requests``. Records: ``plan``
(what was asked of the engine), ``trace`` (see ``traffic.Trace``), ``cache_tokens``, ``reach``."""

from __future__ import annotations

from typing import Any

from engine_facts import first
from stand import Stand
from traffic import Arrival, drive

# Steps between two arrivals: short enough that prefill and decode share steps.
SPACING = 2
ABORTED = 5  # every fifth request
MOST_REQUESTS = 64


def play(stand: Stand, arguments: dict[str, Any]) -> None:
    cache = first(stand.engine, ("llm_engine.vllm_config.cache_config", "llm_engine.cache_config"))
    tokens = int(cache.block_size) * int(cache.num_gpu_blocks)
    stand.record("cache_tokens", tokens)
    prompt, response = arguments["prompt"], arguments["response"]
    # Together they grow a third beyond the cache, so that some are preempted while they decode.
    count = max(arguments["requests"], min(MOST_REQUESTS, tokens * 4 // (3 * (prompt + response)) + 1))
    arrivals = [_arrival(stand, number, prompt, response) for number in range(count)]
    trace = drive(stand, arrivals)
    stand.record("trace", trace.plain())
    stand.record(
        "reach",
        {
            "requests": count,
            "prompt_tokens": sum(len(one.prompt) for one in arrivals),
            "sampled_tokens": sum(len(answer["token_ids"]) for answer in trace.answers.values()),
            "longest": prompt + response,
            "steps": trace.steps,
            "seconds": trace.seconds,
        },
    )


def _arrival(stand: Stand, number: int, prompt: int, response: int) -> Arrival:
    # Lengths from a quarter of the longest to the longest, the same ones on every engine.
    length = max(16, prompt - (number * 7 % 4) * prompt // 4)
    return Arrival(
        name=f"request {number}",
        prompt=stand.prompt(length, salt=number + 1),
        parameters={"temperature": 0.0, "max_tokens": response, "logprobs": 1, "ignore_eos": True},
        at=number * SPACING,
        abort_after=max(1, response // 2) if number % ABORTED == ABORTED - 1 else None,
    )
