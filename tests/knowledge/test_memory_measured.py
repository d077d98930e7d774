"""The arithmetic of memory against what torch and vLLM took on a real device: it is never above, and little below."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rldoctor.knowledge.memory import CONTEXT, GIB, Training, activations, cache, parameters, states, weight_element

RECORDED = json.loads((Path(__file__).parent / "recorded" / "h200_memory.json").read_text())
ENGINE: dict[str, Any] = RECORDED["engine"]
QWEN2 = {"model_type": "qwen2", "num_key_value_heads": 2, "tie_word_embeddings": True, "vocab_size": 151936}
HALF = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14}
ONE_AND_A_HALF = {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12}
CONFIGS: dict[str, dict[str, Any]] = {
    "0.5b": {**QWEN2, **HALF},
    "small_vocab": {**QWEN2, **HALF, "vocab_size": 4096},
    "1.5b": {**QWEN2, **ONE_AND_A_HALF},
}
SEVEN = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
    "vocab_size": 152064,
}


def name(row: dict[str, Any]) -> str:
    kept = "recomputed" if row["checkpointing"] else "kept"
    return f"{row['size']}-{row['dtype']}-{kept}-{row['loss']}-{row['n']}x{row['length']}"


def element(row: dict[str, Any]) -> float:
    return 4.0 if row["dtype"] == "float32" else 2.0


@pytest.mark.parametrize("row", RECORDED["trainer"], ids=name)
class TestATrainer:
    def test_parameters(self, row: dict[str, Any]) -> None:
        counted = parameters(CONFIGS[row["size"]])
        assert counted is not None and 0.999 < counted / row["parameters"] < 1

    def test_what_rests_between_updates(self, row: dict[str, Any]) -> None:
        # Beside them there are the ids and a workspace of cuBLAS, of some 50 MB in all.
        training = Training(parameters=row["parameters"], strategy="single", ranks=1, element=element(row))
        assert 1 <= row["resting"] / states(training).resting < 1.05

    def test_what_a_step_adds(self, row: dict[str, Any]) -> None:
        """Logits in the precision of the pass and the activations that are kept, of which the gradients are only made
        as these are given back."""
        tokens = row["n"] * row["length"]
        logits = 2 * tokens * CONFIGS[row["size"]]["vocab_size"]
        kept = 0.0 if row["checkpointing"] else tokens * (activations(CONFIGS[row["size"]]) or 0.0)
        added = row["forward"] - row["resting"]
        assert logits + kept < added
        if kept:  # transformers' loss has logits in 32 bits beside them
            assert logits + kept > 0.75 * (added - (2 * logits if row["loss"] == "ce" else 0))


def test_logits_and_their_gradient_are_there_at_once() -> None:
    """Four bytes each in 16 bits: frameworks.record.Memory.whole_logits of TRL."""
    rows = [row for row in RECORDED["trainer"] if row["size"] != "small_vocab" and row["checkpointing"]]
    for row in rows:
        logits = row["n"] * row["length"] * CONFIGS[row["size"]]["vocab_size"]
        assert row["update_peak"] - row["resting"] > 4 * logits


class TestAnEngine:
    def test_weights(self) -> None:
        counted = (parameters(SEVEN) or 0) * weight_element(SEVEN, "bfloat16", None)
        assert 0.99 < counted / (ENGINE["weights_gib"] * GIB) < 1

    def test_the_cache(self) -> None:
        held = cache(SEVEN, 2.0)
        assert held is not None
        assert held.bytes(ENGINE["cache_tokens"]) == pytest.approx(ENGINE["cache_gib"] * GIB, rel=0.001)

    def test_a_context(self) -> None:
        assert CONTEXT <= ENGINE["total"] - ENGINE["free_with_a_context"] < 1.1 * CONTEXT

    def test_what_sleep_gives_back(self) -> None:
        given = ENGINE["free_asleep"] - ENGINE["free_awake"]
        assert given > (ENGINE["weights_gib"] + ENGINE["cache_gib"]) * GIB
        # What stays is the context, and what torch holds outside vLLM's pool.
        assert CONTEXT < ENGINE["total"] - ENGINE["free_asleep"] < 2 * CONTEXT
