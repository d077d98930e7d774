"""How a vLLM release resolves what it is asked, and who calls the engine of a launch."""

from __future__ import annotations

from rldoctor.knowledge.layers import keeps_buffers
from rldoctor.knowledge.sharing import evaluates_on_it, one_engine_in_the_trainer, samples_in_a_thread
from rldoctor.knowledge.vllm_engine import ATTENTION_OF_V0, chunked_prefill, generation, release

__all__ = [
    "ATTENTION_OF_V0",
    "chunked_prefill",
    "evaluates_on_it",
    "generation",
    "keeps_buffers",
    "one_engine_in_the_trainer",
    "release",
    "samples_in_a_thread",
]
