"""Engines that sleep badly, and a CPU engine that pretends to sleep, since it has no sleep mode."""

from __future__ import annotations

from typing import Any

import engine_facts

MODELS = tuple(f"{worker}.model_runner.model" for worker in engine_facts.WORKERS)
GIB = 1 << 30


def embeddings(llm: Any) -> dict[str, Any]:
    """Weights that a CPU engine, too, computes with as they are."""
    model = engine_facts.first(llm, MODELS)
    return {name: weight for name, weight in model.named_parameters() if "embed_tokens" in name}


def pretended(llm: Any) -> None:
    """Sleep as a GPU engine has it: level 1 keeps the weights in host memory, level 2 loses them, and a device of
    numbers is freer meanwhile."""
    import torch

    asleep: set[str] = set()
    kept: dict[str, Any] = {}

    def sleep(level: int = 1) -> None:
        llm.reset_prefix_cache()
        kept.clear()
        asleep.update(("weights", "kv_cache"))
        for name, weight in embeddings(llm).items():
            if level == 1:
                kept[name] = weight.data.clone()
            weight.data.fill_(0.0)

    def wake_up(tags: list[str] | None = None) -> None:
        asleep.difference_update(tags or ("weights", "kv_cache"))
        for name, weight in embeddings(llm).items() if "weights" in (tags or ("weights",)) else ():
            if name in kept:
                weight.data.copy_(kept[name])

    llm.sleep, llm.wake_up = sleep, wake_up
    torch.cuda.mem_get_info = lambda *_: ((64 + len(asleep)) * GIB, 80 * GIB)


def woken_wrong(llm: Any) -> None:
    """Weights that come back other than they went."""
    wake_up = llm.wake_up

    def woken(tags: list[str] | None = None) -> None:
        wake_up(tags)
        if tags is None or "weights" in tags:
            for weight in embeddings(llm).values():
                weight.data.copy_(weight.data.flip(0))

    llm.wake_up = woken


def sleepless(llm: Any) -> None:
    """An engine that only says that it sleeps."""
    llm.sleep = lambda level=1: None
    llm.wake_up = lambda tags=None: None
