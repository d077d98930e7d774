"""Models by their names on the hub: each shape has the parameters that its name tells."""

from __future__ import annotations

import re

import pytest

from rldoctor.knowledge import table
from rldoctor.knowledge.memory import parameters
from rldoctor.knowledge.model_config import context, heads
from rldoctor.knowledge.published_models import published

NAMES = [name for model in table("published_models")["models"] for name in model["names"]]


@pytest.mark.parametrize("name", NAMES)
def test_a_shape_has_the_parameters_of_its_name(name: str) -> None:
    model = published(name)
    assert model is not None and model.path == name and model.cached and not model.files
    told = float(re.findall(r"-(\d+(?:\.\d+)?)B", name)[0])
    # Makers round, and some leave the embeddings out: Qwen2.5-3B has 3.09, Qwen3-0.6B 0.60, Llama-3.2-1B 1.24.
    assert 0.9 * told < (parameters(model.config) or 0) / 1e9 < 1.3 * told
    query, kv = heads(model.config)
    assert query and kv and query % kv == 0


@pytest.mark.parametrize(
    "name, tokens",
    [
        ("Qwen/Qwen2.5-7B", 131072),
        ("Qwen/Qwen2.5-7B-Instruct", 32768),
        ("Qwen/Qwen2.5-Math-7B", 4096),
        ("Qwen/Qwen3-8B", 40960),
        ("Qwen/Qwen3-8B-Base", 32768),
        ("Qwen/Qwen3-4B-Thinking-2507", 262144),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8192),
        ("meta-llama/Llama-3.3-70B-Instruct", 131072),
    ],
)
def test_the_context_is_the_published_one(name: str, tokens: int) -> None:
    model = published(name)
    limit = context(model.config) if model else None
    assert limit is not None and limit.tokens == tokens


@pytest.mark.parametrize(
    "name", ["Qwen2.5-7B-Instruct", "/models/Qwen/Qwen2.5-7B", "me/Qwen2.5-7B-Instruct", "qwen/qwen3-8b"]
)
def test_only_the_exact_name_on_the_hub_is_known(name: str) -> None:
    assert published(name) is None
