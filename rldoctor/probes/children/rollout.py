"""Boots the environment's vLLM on a miniature model, samples a small group with log-probabilities, and records what it
saw.

Arguments: ``engine`` (options of ``vllm.LLM``), ``config`` and ``files`` of the model to stand in for (or None),
``samples`` (completions of the group), ``prompt_tokens``, ``max_tokens``. Records, in order: ``stage``, ``seconds``
(of each stage), ``versions``, ``miniature``, ``engine`` (resolved configuration), ``devices``, ``rotary``, ``unread``,
``completions``, ``reach``. One engine, in this process where vLLM allows it; the same for V0 and V1, CPU and CUDA."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import miniature
from engine_facts import Reader
from report import emit, run, stage


def main(arguments: dict[str, Any]) -> None:
    seconds: dict[str, float] = {}
    clock = Clock(seconds)
    with clock("import"):
        import torch
        from vllm import LLM, SamplingParams
    emit("versions", versions())
    with clock("miniature"):
        made = miniature.make(Path("miniature"), arguments["config"], arguments["files"])
    emit("miniature", made)
    options = engine_options(made, torch, arguments["engine"])
    emit("asked", options)
    with clock("boot"):
        llm = LLM(**options)
    with clock("inspect"):
        inspect(llm)
    prompt = prompt_tokens(made["config"]["vocab_size"], arguments["prompt_tokens"])
    length = {"max_tokens": arguments["max_tokens"], "logprobs": 1}
    group = SamplingParams(n=arguments["samples"], temperature=1.0, **length)
    greedy = SamplingParams(temperature=0.0, **length)
    # A batch that mixes greedy and sampled requests has vLLM compile its sampler's kernels again, for seconds.
    batches = [{"group": group}, {"greedy": greedy, "greedy twin": greedy}, {"group again": group}]
    completions: list[dict[str, Any]] = []
    for number, asked in enumerate(batches):
        with clock("generate again" if number else "generate"):
            completions += generate(llm, prompt, asked)
        emit("completions", completions)
    sampled = sum(len(completion["token_ids"]) for completion in completions)
    emit(
        "reach",
        {"prompt_tokens": len(prompt), "completions": len(completions), "sampled_tokens": sampled, "engines": 1},
    )


class Clock:
    """Announces each stage and takes its time."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def __call__(self, name: str) -> Clock:
        self.name = name
        return self

    def __enter__(self) -> None:
        stage(self.name)
        self.began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        spent = time.monotonic() - self.began
        self.seconds[self.name] = round(self.seconds.get(self.name, 0.0) + spent, 3)
        emit("seconds", self.seconds)


def versions() -> dict[str, Any]:
    import platform
    import sys

    names = ("vllm", "torch", "transformers")
    told = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    torch = sys.modules["torch"]
    return {
        **told,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "device_name": torch.cuda.get_device_name(0) if torch.cuda.is_available() else platform.processor() or "cpu",
    }


def engine_options(made: dict[str, Any], torch: Any, given: dict[str, Any]) -> dict[str, Any]:
    options = {
        "model": made["path"],
        "enforce_eager": True,
        "skip_tokenizer_init": not made["tokenizer"],
        "load_format": "dummy" if made["weights"] == "dummy" else "auto",
        **given,
    }
    if torch.cuda.is_available() and torch.cuda.get_device_capability(0) < (8, 0):
        options.setdefault("dtype", "half")  # the miniature's bfloat16 needs 8.0
    return options


def inspect(llm: Any) -> None:
    """Records what can be read from the engine; what cannot is said, and stops nothing."""
    reader = Reader(llm)
    facts: dict[str, Callable[[], Any]] = {
        "engine": reader.configuration,
        "devices": reader.devices,
        "rotary": reader.rotary,
    }
    for name, read in facts.items():
        try:
            emit(name, read())
        except Exception as error:
            reader.unread[name] = f"{type(error).__name__}: {error}"
    emit("unread", reader.unread)


def prompt_tokens(vocabulary: int, count: int) -> list[int]:
    """Different ordinary tokens: the last ids of a vocabulary are often special."""
    room = max(min(vocabulary, 50_000) * 3 // 4, 1)
    return [3 + (i * 37) % max(room - 3, 1) for i in range(count)]


def generate(llm: Any, prompt: list[int], asked: dict[str, Any]) -> list[dict[str, Any]]:
    """One batch with a request per entry of ``asked``; returns one row per completion."""
    prompts = [{"prompt_token_ids": list(prompt)} for _ in asked]
    outputs = llm.generate(prompts, list(asked.values()), use_tqdm=False)
    return [
        {
            "request": name,
            "temperature": parameters.temperature,
            "seed": parameters.seed,
            "max_tokens": parameters.max_tokens,
            "index": completion.index,
            "token_ids": list(completion.token_ids),
            "finish_reason": completion.finish_reason,
            "logprobs": logprobs(completion),
        }
        for number, (name, parameters) in enumerate(asked.items())
        for completion in outputs[number].outputs
    ]


def logprobs(completion: Any) -> list[Any]:
    """The log-probability of each sampled token; None where the engine gave none."""
    told = completion.logprobs or []
    entries = [(told[i] if i < len(told) else {}).get(token) for i, token in enumerate(completion.token_ids)]
    return [None if entry is None else float(getattr(entry, "logprob", entry)) for entry in entries]


if __name__ == "__main__":
    run(main)
