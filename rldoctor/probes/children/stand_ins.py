"""Configurations of models that stand for one that is not known, and folders that hold one.

One admits every length and every division of its heads, and one is short: what only one of them makes a validator
refuse is the model's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def _model(most: int) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 64 * 840,
        "num_attention_heads": 840,
        "num_key_value_heads": 840,
        "num_hidden_layers": 840,
        "intermediate_size": 840 * 64,
        "vocab_size": 32000,
        "max_position_embeddings": most,
        "torch_dtype": "bfloat16",
    }


STAND_INS = {"any model": _model(1 << 24), "a short model": _model(1 << 8)}


def written(folder: Path, config: Mapping[str, Any]) -> Path:
    """The folder with a model's configuration in it, which is all of the model."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder.absolute()
