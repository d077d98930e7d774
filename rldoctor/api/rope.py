"""Rotary embeddings: their settings as transformers and vLLM read them."""

from __future__ import annotations

from rldoctor.knowledge.rope import contradiction as rope_contradiction
from rldoctor.knowledge.rope import effective as rope_config
from rldoctor.knowledge.rope import missing as rope_missing
from rldoctor.knowledge.rope import original_length_filled_in
from rldoctor.knowledge.rope import scaling as rope_settings

__all__ = [
    "original_length_filled_in",
    "rope_config",
    "rope_contradiction",
    "rope_missing",
    "rope_settings",
]
