"""Engines that lose something with every round of traffic."""

from __future__ import annotations

from typing import Any

from engine_facts import first

MIB = 1 << 20
POOL = "llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool"


def leaks(llm: Any) -> None:
    """Both at once."""
    leaks_memory(llm)
    leaks_blocks(llm)


def leaks_memory(llm: Any) -> None:
    """Every request leaves some MiB behind."""
    add, kept = llm.llm_engine.add_request, []

    def add_and_keep(*arguments: Any, **named: Any) -> Any:
        kept.append(b"\1" * (8 * MIB))
        return add(*arguments, **named)

    llm.llm_engine.add_request = add_and_keep


def leaks_blocks(llm: Any) -> None:
    """Of the blocks that a request gives back, one stays away."""
    pool = first(llm, (POOL,))
    free = pool.free_blocks

    def free_all_but_one(blocks: Any) -> None:
        free(list(blocks)[1:])

    pool.free_blocks = free_all_but_one
