"""What a config.json means by leaving a key out."""

from typing import Any

import pytest

from rldoctor.case import Case, Distribution, ModelFiles, Packages
from rldoctor.catalogue.check import NotChecked
from rldoctor.knowledge.memory import head_dim, parameters
from rldoctor.knowledge.model_config import ModelConfig, context, heads, model_config, text_config

# google/gemma-3-4b-it states no heads, no vocabulary and no length.
GEMMA_3: dict[str, Any] = {
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
    },
}


def config_of(config: dict[str, Any], transformers: str | None = None) -> ModelConfig:
    found = () if transformers is None else (Distribution(name="transformers", version=transformers),)
    packages = Packages(python="3.12", executable="python", distributions=found)
    return model_config(Case(model=ModelFiles(path="m", config=config), packages=packages))


def test_the_class_of_the_model_type_fills_in() -> None:
    config = config_of({"model_type": "qwen2", "num_attention_heads": 14, "hidden_size": 896})
    assert heads(config) == (14, 32)
    assert config.defaulted == "not in the file: num_key_value_heads 32 (default of qwen2 in transformers)"


def test_a_width_of_heads_that_is_no_quotient() -> None:
    assert head_dim(config_of({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16})) == 128


def test_a_section_has_the_defaults_of_its_own_class() -> None:
    config = config_of(GEMMA_3, "4.51.3")
    assert heads(config) == (8, 4)
    limit = context(config)
    assert limit is not None and limit.tokens == 131072
    assert parameters(config) == pytest.approx(3.88e9, rel=0.01)
    unnamed = {**GEMMA_3, "text_config": {"hidden_size": 2560}}
    assert text_config(config_of(unnamed, "4.51.3"))["model_type"] == "gemma3_text"


def test_settings_that_stand_flat_where_later_releases_have_a_section() -> None:
    config = config_of({"model_type": "qwen2_5_vl", "num_attention_heads": 28}, "4.57.0")
    assert heads(config) == (28, 8)


def test_what_is_stated_counts_null_too() -> None:
    assert heads(config_of({"model_type": "qwen2", "num_attention_heads": 14, "num_key_value_heads": None})) == (14, 14)
    stated = config_of({"model_type": "qwen2", "num_attention_heads": 14, "num_key_value_heads": 2})
    assert heads(stated) == (14, 2) and not stated.defaulted


def test_a_model_with_code_of_its_own_has_no_defaults() -> None:
    own = {"model_type": "qwen2", "auto_map": {"AutoConfig": "configuration.Mine"}, "num_attention_heads": 14}
    assert heads(config_of(own)) == (14, 14)
    assert heads(config_of({"model_type": "nobody-knows", "num_attention_heads": 14})) == (14, 14)


def test_releases_that_differ_need_the_one_that_is_there() -> None:
    gemma = {"model_type": "gemma2", "num_attention_heads": 8}
    assert heads(config_of(gemma, "4.46.0")) == (8, 16)
    assert heads(config_of(gemma, "4.57.1")) == (8, 4)
    with pytest.raises(NotChecked, match="num_key_value_heads, releases of transformers differ"):
        heads(config_of(gemma))
