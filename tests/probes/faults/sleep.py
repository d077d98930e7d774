"""Engines that sleep badly, and a CPU engine that pretends to sleep, since it has no sleep mode."""

from __future__ import annotations

from collections.abc import Callable
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


def _after_waking(llm: Any, change: Callable[[list[str] | None], None]) -> None:
    wake_up = llm.wake_up

    def woken(tags: list[str] | None = None) -> None:
        wake_up(tags)
        change(tags)

    llm.wake_up = woken


def woken_without_a_norm(llm: Any) -> None:
    """One norm of one layer comes back as it was made."""
    norm = engine_facts.first(llm, MODELS).model.layers[1].post_attention_layernorm.weight
    _after_waking(llm, lambda _: norm.data.fill_(1.0))


def woken_in_bfloat16(llm: Any) -> None:
    """Weights come back rounded."""

    def rounded(_: list[str] | None) -> None:
        for weight in embeddings(llm).values():
            weight.data.copy_(weight.data.bfloat16())

    _after_waking(llm, rounded)


def woken_without_buffers(llm: Any) -> None:
    """What is no parameter is lost: the rotary table beyond its first rows."""

    def lost(_: list[str] | None) -> None:
        for module in engine_facts.first(llm, MODELS).modules():
            if getattr(module, "cos_sin_cache", None) is not None:
                module.cos_sin_cache.data[64:] = 0.0

    _after_waking(llm, lost)


def woken_wrong_in_parts(llm: Any) -> None:
    """Weights that wake up before the cache come back a row late."""

    def rolled(tags: list[str] | None) -> None:
        if tags == ["weights"]:
            for weight in embeddings(llm).values():
                weight.data.copy_(weight.data.roll(1, 0))

    _after_waking(llm, rolled)


def cache_kept_by_name(llm: Any) -> None:
    """Blocks are empty after sleep, and are found again all the same."""
    sleep = llm.sleep

    def slept(level: int = 1) -> None:
        reset, llm.reset_prefix_cache = llm.reset_prefix_cache, lambda *_, **__: True
        sleep(level)
        llm.reset_prefix_cache = reset
        for module in engine_facts.first(llm, MODELS).modules():
            if type(module).__name__ == "Attention":
                cache = module.kv_cache
                (cache[0] if isinstance(cache, list | tuple) else cache).zero_()

    llm.sleep = slept


def gives_back_less_each_time(llm: Any) -> None:
    """Each sleep gives back 64 MiB less than the one before, and each waking takes as much more."""
    import torch

    free, cycles = torch.cuda.mem_get_info, [0]

    def less(*given: Any) -> Any:
        now, total = free(*given)
        return now - cycles[0] * (GIB // 16), total

    def count(_: list[str] | None) -> None:
        cycles[0] += 1

    torch.cuda.mem_get_info = less
    _after_waking(llm, count)


def draws_begin_anew(llm: Any) -> None:
    """The random state is that of the boot after each waking."""
    import torch

    _after_waking(llm, lambda _: torch.manual_seed(0) and None)


def wakes_with_fewer_blocks(llm: Any) -> None:
    """Each waking loses blocks of the KV cache."""
    pool = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool",))
    _after_waking(llm, lambda _: pool.get_new_blocks(64) and None)


def third_waking_fails(llm: Any) -> None:
    """The third waking raises."""
    cycles = [0]

    def third(_: list[str] | None) -> None:
        cycles[0] += 1
        if cycles[0] == 3:
            raise RuntimeError("the allocator holds a block that is mapped already")

    _after_waking(llm, third)


def woken_as_booted(llm: Any) -> None:
    """Weights wake up as they were at the start, whatever was sent since."""
    held = {name: weight.data.clone() for name, weight in embeddings(llm).items()}

    def booted(tags: list[str] | None) -> None:
        if tags is None or "weights" in tags:
            for name, weight in embeddings(llm).items():
                weight.data.copy_(held[name])

    _after_waking(llm, booted)


def woken_with_norms_exchanged(llm: Any) -> None:
    """Two norms of one layer wake up in each other's place."""
    layer = engine_facts.first(llm, MODELS).model.layers[1]
    one, other = layer.input_layernorm.weight, layer.post_attention_layernorm.weight

    def exchanged(_: Any) -> None:
        held = one.data.clone()
        one.data.copy_(other.data)
        other.data.copy_(held)

    _after_waking(llm, exchanged)


def cache_wakes_over_the_update(llm: Any) -> None:
    """What was sent while the cache slept is lost when it wakes up: weights are those from before the sleep."""
    sleep, before = llm.sleep, dict[str, Any]()

    def slept(level: int = 1) -> None:
        before.update((name, weight.data.clone()) for name, weight in embeddings(llm).items())
        sleep(level)

    def undone(tags: list[str] | None) -> None:
        if tags == ["kv_cache"]:
            for name, weight in embeddings(llm).items():
                weight.data.copy_(before[name])

    llm.sleep = slept
    _after_waking(llm, undone)
