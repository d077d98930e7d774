"""Engines and trainers that fail at the longest sequence."""

from __future__ import annotations

from typing import Any

import engine_facts

MODEL = f"{engine_facts.WORKERS[0]}.model_runner.model"


def limit_of(llm: Any) -> int:
    return int(llm.llm_engine.model_config.max_model_len)


def short_engine_table(llm: Any) -> None:
    """The engine's rotary table lacks the last position that is computed (a last token is sampled and not fed back);
    torch's own kernel says so, vLLM's reads what lies behind."""
    model = engine_facts.first(llm, (MODEL,))
    for module in model.modules():
        if getattr(module, "cos_sin_cache", None) is not None:
            module.cos_sin_cache = module.cos_sin_cache[: limit_of(llm) - 2]
            module._forward_method = module.forward_native


def short_trainer_table_and_a_sloppy_engine(llm: Any) -> None:
    """The trainer's rotary table lacks the last position; the engine ends answers early and cuts long prompts."""
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
    from vllm import LLM
    from vllm.v1.core.sched import scheduler

    rows = limit_of(llm) - 1
    forward, check_stop, generate = Qwen2RotaryEmbedding.forward, scheduler.check_stop, LLM.generate

    def table(*reported: Any) -> Any:
        return tuple(part[:, :rows] for part in forward(*reported))

    def cut(self: Any, prompts: Any, *reported: Any, **named: Any) -> Any:
        kept = [{"prompt_token_ids": prompt["prompt_token_ids"][:rows]} for prompt in prompts]
        return generate(self, kept, *reported, **named)

    Qwen2RotaryEmbedding.forward = table
    scheduler.check_stop = lambda request, longest: check_stop(request, longest - 1)
    LLM.generate = cut
