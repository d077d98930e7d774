"""What a model's ``config.json`` says of its shape, whatever the architecture calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Multimodal models keep the language model's settings below one of these.
TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")
# vLLM 0.10.2, vllm/config: `_get_and_verify_max_len`.
LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Rotary scalings whose max_position_embeddings is the scaled length already.
SCALED_ALREADY = ("su", "longrope", "llama3", "default")
HEADS = ("num_attention_heads", "n_head", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")


@dataclass(frozen=True)
class Context:
    """The longest sequence that vLLM accepts for a model, in tokens; ``key`` says which setting limits it."""

    tokens: int
    key: str


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes the language model."""
    for section in TEXT_SECTIONS:
        inner = config.get(section)
        if isinstance(inner, Mapping):
            return text_config(inner)
    return config


def number(config: Mapping[str, Any], *keys: str) -> int | None:
    """The first of the keys that holds a positive whole number."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def heads(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Attention heads and key-value heads; where the latter are not named they are as many."""
    text = text_config(config)
    query = number(text, *HEADS)
    return query, number(text, *KV_HEADS) or query


def feed_forward_width(config: Mapping[str, Any]) -> int | None:
    """The intermediate size of the dense layers."""
    return number(text_config(config), "intermediate_size", "ffn_hidden_size", "n_inner")


def rope_scaling(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The rotary scaling: ``rope_scaling``, in transformers 5 ``rope_parameters``; None where there is none."""
    text = text_config(config)
    for key in ("rope_scaling", "rope_parameters"):
        scaling = text.get(key)
        if isinstance(scaling, Mapping) and rope_type(scaling):
            return scaling
    return None


def rope_type(scaling: Mapping[str, Any]) -> str:
    """The kind of a rotary scaling; older configs say ``type``."""
    return str(scaling.get("rope_type") or scaling.get("type") or "")


def context(config: Mapping[str, Any]) -> Context | None:
    """The context that vLLM derives, or None where the config does not tell (rope scaling incomplete included)."""
    text = text_config(config)
    lengths = {key: value for key in LENGTH_KEYS if (value := number(text, key))}
    if not lengths:
        return None
    key = min(lengths, key=lambda k: lengths[k])
    if "model_max_length" in lengths:  # Cohere: the larger number is the usable one
        key = "model_max_length"
    tokens: float = lengths[key]
    scaling = rope_scaling(config)
    # Gemma 3's length is scaled already.
    if scaling is None or rope_type(scaling) in SCALED_ALREADY or "gemma3" in str(text.get("model_type", "")):
        return Context(int(tokens), key)
    factor = scaling.get("factor", 1.0)
    if rope_type(scaling) == "mrope" or not isinstance(factor, int | float):
        return Context(int(tokens), key)
    if rope_type(scaling) == "yarn":
        original = number(scaling, "original_max_position_embeddings")
        if original is None:
            return None
        tokens, key = original, "original_max_position_embeddings"
    return Context(int(tokens * factor), f"{key} with {rope_type(scaling)} factor {factor:g}")
