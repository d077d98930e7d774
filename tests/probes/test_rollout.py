"""The rollout scenario: what is recorded of a real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.processes import failure_unrecognised
from rldoctor_checks.rollout import kv_cache, rotary_length

from rldoctor.api import Case, Outcome
from rldoctor.api.facts import ModelFiles
from rldoctor.judge import judge_one
from rldoctor.probes.rollout import rollout as probe
from tests.live import Played, cases_of_one_import

QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "head_dim": 128,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 36,
    "max_position_embeddings": 40960,
    "vocab_size": 20000,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 20480},
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eos_token_id": 19999,
}
GEMMA3 = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "head_dim": 256,
    "intermediate_size": 6912,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "num_hidden_layers": 26,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "max_position_embeddings": 32768,
    "vocab_size": 20000,
    "eos_token_id": 1,
}
# Enough for one sequence of one kind of layer.
ONE_SEQUENCE = {"max_model_len": 256, "block_size": 32, "num_gpu_blocks_override": 9}


@pytest.fixture(scope="module")
def others(patient: Path) -> dict[str, Case]:
    """What is recorded of engines of other models, which share an import of vLLM."""
    qwen3, gemma3 = (ModelFiles(path="model", config=config) for config in (QWEN3, GEMMA3))
    engines = {
        "a rope of its own": Played((probe,), model=qwen3),
        "two kinds of layers": Played((probe,), model=gemma3, engine=ONE_SEQUENCE),
    }
    return cases_of_one_import(patient, engines)


def records(case: Case) -> dict[str, Any]:
    job = case.observations["rollout"]["miniature"]
    assert job["ended"] == "done", job["tail"][-5:]
    return dict(job["records"])


@pytest.mark.engine
def test_what_is_recorded_of_a_healthy_engine(rollout: Callable[..., Case]) -> None:
    reported = records(rollout())
    assert list(reported["seconds"]) == ["import", "miniature", "boot", "inspect", "generate", "generate again"]
    engine = reported["engine"]
    assert engine["max_model_len"] == 2048 and engine["enforce_eager"] is True and engine["tensor_parallel_size"] == 1
    assert engine["engine"] in ("V0", "V1") and engine["attention_backend"]
    assert {"max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "block_size", "seed"} <= engine.keys()
    assert sum(reported["devices"]["parameters"]["count"].values()) > 10
    assert sum(reported["devices"]["kv_cache"]["count"].values()) >= 1
    rows = reported["completions"]
    assert [row["request"] for row in rows] == ["group"] * 8 + ["greedy", "greedy twin"] + ["group again"] * 8
    assert all(len(row["logprobs"]) == len(row["token_ids"]) and row["finish_reason"] for row in rows)
    assert all(-50 < value <= 0 for row in rows for value in row["logprobs"])
    assert rows[8]["token_ids"] == rows[9]["token_ids"]
    assert reported["reach"]["sampled_tokens"] == sum(len(row["token_ids"]) for row in rows)


@pytest.mark.engine
def test_a_given_model_is_stood_in_for_with_its_own_shape(others: dict[str, Case]) -> None:
    case = others["a rope of its own"]
    reported = records(case)
    assert (reported["miniature"]["like"], reported["miniature"]["weights"]) == ("Qwen3ForCausalLM", "written")
    assert reported["rotary"][0]["kind"].startswith("YaRN")
    assert judge_one(rotary_length.check, case).outcome is Outcome.PASS
    assert "miniature Qwen3ForCausalLM" in str(judge_one(failure_unrecognised.check, case).reason)


@pytest.mark.engine
def test_layers_of_two_kinds_have_cache_blocks_for_each(others: dict[str, Case]) -> None:
    case = others["two kinds of layers"]
    assert len(records(case)["completions"]) == 18
    assert judge_one(kv_cache.check, case).findings == ()
