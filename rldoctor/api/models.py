"""What a model's config.json says, and since when an engine knows it."""

from __future__ import annotations

from rldoctor.knowledge.memory import layers as layers_of
from rldoctor.knowledge.model_config import cite_config, model_config, text_config
from rldoctor.knowledge.model_config import context as model_context
from rldoctor.knowledge.model_config import feed_forward_width as model_width
from rldoctor.knowledge.model_config import heads as model_heads
from rldoctor.tables.registries import First, architecture_since, model_type_since

__all__ = [
    "First",
    "architecture_since",
    "cite_config",
    "layers_of",
    "model_config",
    "model_context",
    "model_heads",
    "model_type_since",
    "model_width",
    "text_config",
]
