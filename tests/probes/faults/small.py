"""Engines that are a little off: what rounding hides in bfloat16."""

from __future__ import annotations

from typing import Any

import engine_facts

MODEL = tuple(f"{worker}.model_runner.model" for worker in engine_facts.WORKERS)
# Decode steps of the scenarios hold a token for each of so many requests at most; prompts are longer.
DECODING = 16


def model_of(llm: Any) -> Any:
    return engine_facts.first(llm, MODEL)


def layer_off(llm: Any) -> None:
    """One matrix of one layer, off by half a percent. CPU builds pack matrices, so its product is changed."""
    layer = model_of(llm).model.layers[1].mlp.down_proj
    layer.register_forward_hook(
        lambda _, __, out: (out[0] * 1.005, *out[1:]) if isinstance(out, tuple) else out * 1.005
    )


def decode_one_late(llm: Any) -> None:
    """Tokens that are decoded get the position before their own."""

    def late(_: Any, given: Any, named: dict[str, Any]) -> Any:
        positions = named["positions"]
        if positions.numel() <= DECODING:
            named = {**named, "positions": (positions - 1).clamp(min=0)}
        return given, named

    model_of(llm).register_forward_pre_hook(late, with_kwargs=True)


def last_rotary_row(llm: Any) -> None:
    """The last row of the rotary table holds nothing."""
    for module in model_of(llm).modules():
        table = getattr(module, "cos_sin_cache", None)
        if table is not None:
            table[-1] = 0.0


def one_token_masked(llm: Any) -> None:
    """One ordinary token can never come."""
    model = model_of(llm)
    compute = model.compute_logits

    def masked(*given: Any, **named: Any) -> Any:
        logits = compute(*given, **named)
        if logits is not None:
            logits[:, 65] = float("-inf")
        return logits

    model.compute_logits = masked


def keys_off_at_chunk_ends(llm: Any) -> None:
    """Where prompts are prefilled in chunks, the key of a chunk's last token is five percent too long."""
    config = engine_facts.first(llm, ("llm_engine.vllm_config.scheduler_config",))
    if not config.enable_chunked_prefill:
        return
    budget = config.max_num_batched_tokens
    for module in model_of(llm).modules():
        if type(module).__name__ == "Attention":

            def spoil(_: Any, given: Any, budget: int = budget) -> Any:
                query, key, *rest = given
                if len(key) >= budget:
                    key = key.clone()
                    key[-1] *= 1.05
                return (query, key, *rest)

            module.register_forward_pre_hook(spoil)


def garbled_text(llm: Any) -> None:
    """A detokenizer that swaps letters."""
    from vllm.v1.engine import detokenizer

    for kind in (detokenizer.FastIncrementalDetokenizer, detokenizer.SlowIncrementalDetokenizer):
        decode = kind.decode_next

        def garbled(self: Any, token: int, decode: Any = decode) -> str:
            return str(decode(self, token)).swapcase()

        kind.decode_next = garbled


def adapters_without_scale(llm: Any) -> None:
    """``W + B A`` in place of ``W + alpha / r B A``."""
    from vllm.lora.lora_weights import LoRALayerWeights

    LoRALayerWeights.optimize = lambda self: self
