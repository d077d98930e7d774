"""What a model's ``config.json`` means by leaving a key out: the defaults of transformers' configuration classes, by
``model_type`` and release, from a dated table that ``make`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rldoctor.tables.packed import PackedTable
from rldoctor.versions import parsed

# What the judgements read of a language model; a default of None is left to what the engine makes of it.
KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "tie_word_embeddings",
    "sliding_window",
    "use_sliding_window",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "n_shared_experts",
    "first_k_dense_replace",
    "decoder_sparse_step",
    "full_attention_interval",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
)
# Where multimodal models keep the settings of their language model.
SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")


class Table(PackedTable):
    """The defaults of one package's models. ``releases`` are of every minor release the newest."""

    folder = Path(__file__).with_name("data")

    def __init__(self, package: str, content: Mapping[str, Any]) -> None:
        super().__init__(package, content)
        self._models: dict[str, dict[str, list[list[Any]]]] = content["models"]

    def values(self, model_type: str, key: str) -> tuple[Any, ...]:
        """The defaults of a key over all releases that know the model, oldest first; None stands for none."""
        return tuple(value for _, value in self._models.get(model_type, {}).get(key, ()))

    def value(self, model_type: str, key: str, release: str) -> Any:
        """The default in one release; None where there is none, or the release is older than the table. A release that
        is newer than the table is taken for its last one."""
        asked = parsed(release)
        if asked is None:
            return None
        position = max(
            (
                n
                for n, one in enumerate(self.releases)
                if (p := parsed(one)) is not None and p.release[:2] <= asked.release[:2]
            ),
            default=-1,
        )
        return self._at(model_type, key, position)

    def at(self, release: str) -> dict[str, dict[str, Any]]:
        """The defaults of every model in one release that was read."""
        position = self.releases.index(release)
        found: dict[str, dict[str, Any]] = {}
        for model, keys in self._models.items():
            values = {key: value for key in keys if (value := self._at(model, key, position)) is not None}
            if values:
                found[model] = values
        return found

    def _at(self, model_type: str, key: str, position: int) -> Any:
        spans = self._models.get(model_type, {}).get(key, ())
        return next((value for since, value in reversed(spans) if since <= position), None)
