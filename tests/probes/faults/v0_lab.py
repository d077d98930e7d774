"""What the laboratory lacks of vLLM 0.9.1 on a CPU: attention over a prompt whose beginning is cached.

There it comes from intel-extension-for-pytorch, without which chunked prefill is refused at the first step. Nothing is
broken by this; the scheduler, whose behaviour is looked at, is vLLM's own."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

NAMES = ("intel_extension_for_pytorch", "intel_extension_for_pytorch.llm", "intel_extension_for_pytorch.llm.modules")


def chunked_attention(llm: Any) -> None:
    """Puts attention in plain torch where vLLM imports the extension's. After the boot: vLLM has chosen its cache's
    layout then, for a machine without the extension."""
    modules = [ModuleType(name) for name in NAMES]
    for parent, child in pairwise(modules):
        setattr(parent, child.__name__.rpartition(".")[2], child)
    modules[-1].PagedAttention = PagedAttention  # type: ignore[attr-defined]
    sys.modules.update(zip(NAMES, modules, strict=True))


class PagedAttention:
    """The one function of the extension that vLLM asks for."""

    @staticmethod
    def flash_attn_varlen_func(
        output: Any,
        query: Any,
        key_cache: Any,
        value_cache: Any,
        query_starts: Any,
        key_starts: Any,
        _longest_query: int,
        _longest_key: int,
        scale: float,
        causal: bool,
        block_tables: Any,
        _slopes: Any,
    ) -> None:
        """Shapes: query and output (tokens, heads, size); key_cache (blocks, heads, size / x, block, x); value_cache
        (blocks, heads, size, block); block_tables (sequences, blocks)."""
        import torch

        assert causal
        for number, table in enumerate(block_tables):
            begin, end = int(query_starts[number]), int(query_starts[number + 1])
            seen = int(key_starts[number + 1] - key_starts[number])
            keys = key_cache[table].permute(0, 3, 1, 2, 4).flatten(3).flatten(0, 1)[:seen]
            values = value_cache[table].permute(0, 3, 1, 2).flatten(0, 1)[:seen]
            mask = torch.ones(end - begin, seen, dtype=torch.bool).tril(seen - (end - begin))
            reported = torch.nn.functional.scaled_dot_product_attention(
                query[begin:end].transpose(0, 1),
                keys.transpose(0, 1),
                values.transpose(0, 1),
                attn_mask=mask,
                scale=scale,
                enable_gqa=True,
            )
            output[begin:end] = reported.transpose(0, 1)
