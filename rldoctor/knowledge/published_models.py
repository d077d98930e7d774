"""Models that many launches name: their ``config.json`` as published, where no file of them is at hand.

https://huggingface.co/NAME/blob/main/config.json"""

from __future__ import annotations

from functools import cache
from typing import Any

from rldoctor.case import ModelFiles
from rldoctor.knowledge import table


def published(name: str) -> ModelFiles | None:
    """The model that the hub has under exactly this name, of which nothing lies here; None where it is not known."""
    config = _configs().get(name)
    return ModelFiles(path=name, config=dict(config), cached=True) if config is not None else None


@cache
def _configs() -> dict[str, dict[str, Any]]:
    known = table("published_models")
    length = "max_position_embeddings"
    return {
        name: {**known["shapes"][model["shape"]], length: model[length]}
        for model in known["models"]
        for name in model["names"]
    }
