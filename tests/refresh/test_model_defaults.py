"""The defaults of configuration classes, read from their source in both of its forms."""

import pytest

from rldoctor.refresh.model_defaults import defaults_of, encoded
from rldoctor.tables.model_defaults import Table

ARGUMENTS = """
class SmallConfig(PretrainedConfig):
    model_type = "small"

    def __init__(self, vocab_size=32000, hidden_size=512, num_attention_heads=8, num_key_value_heads=None, head_dim=128,
                 max_position_embeddings=4096 * 32, use_sliding_window=False, sliding_window=4096, **kwargs):
        self.hidden_size = hidden_size
        if num_key_value_heads is None:
            num_key_value_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_dim = head_dim if head_dim is not None else self.hidden_size // self.num_attention_heads
        self.sliding_window = sliding_window if use_sliding_window else None
"""
FIELDS = """
class SmallConfig(PreTrainedConfig):
    model_type = "small"
    vocab_size: int = 32_000
    hidden_size: int = 512
    num_key_value_heads: int | None = 4

    def __post_init__(self, **kwargs):
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads


class WiderConfig(SmallConfig):
    model_type = "wider"
    hidden_size: int = 1024


class SeeingConfig(PreTrainedConfig):
    model_type = "seeing"
    sub_configs = {"text_config": SmallConfig, "vision_config": EyeConfig}
"""


class Files:
    def __init__(self, **texts: str) -> None:
        self.texts = {f"transformers/models/{name}/configuration_{name}.py": text for name, text in texts.items()}

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(self.texts)

    def read(self, path: str) -> str | None:
        return self.texts.get(path)


def test_arguments_of_a_constructor_and_a_default_of_none_is_none() -> None:
    assert defaults_of(Files(small=ARGUMENTS))["small"] == {
        "head_dim": 128,
        "hidden_size": 512,
        "max_position_embeddings": 131072,
        "num_attention_heads": 8,
        "sliding_window": 4096,
        "use_sliding_window": False,
        "vocab_size": 32000,
    }


def test_fields_inheritance_and_the_model_of_a_section() -> None:
    found = defaults_of(Files(small=FIELDS))
    assert found["small"] == {"hidden_size": 512, "num_key_value_heads": 4, "vocab_size": 32000}
    assert found["wider"]["hidden_size"] == 1024 and found["wider"]["num_key_value_heads"] == 4
    assert found["seeing"] == {"text_config": "small"}


@pytest.mark.parametrize(
    "made",
    ["self.hidden_size = 64 * num_attention_heads", "self.hidden_size = hidden_size if width is None else width"],
)
def test_what_the_constructor_makes_otherwise_has_no_default(made: str) -> None:
    text = ARGUMENTS.replace("self.hidden_size = hidden_size", made)
    assert "hidden_size" not in defaults_of(Files(small=text))["small"]


def test_a_release_has_the_newest_default_before_it() -> None:
    table = Table(
        "transformers",
        encoded([("4.45.2", {"m": {"a": 1, "b": True}}), ("4.46.3", {"m": {"a": 2}}), ("5.0.0", {"m": {"a": 2}})], ""),
    )
    assert [table.value("m", "a", release) for release in ("4.44.0", "4.45.0", "4.46.0", "5.9.1")] == [None, 1, 2, 2]
    assert table.value("m", "b", "4.45.1") is True and table.value("m", "b", "4.46.0") is None
    assert table.values("m", "a") == (1, 2)
    assert table.at("4.46.3") == {"m": {"a": 2}}
