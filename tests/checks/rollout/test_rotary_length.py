"""RLD204: a row for every position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rldoctor_checks.rollout.rotary_length import check

from rldoctor.api import Case, Outcome
from rldoctor.judge import judge_one
from tests.logs.asking import finding as logged
from tests.logs.asking import findings as unsaid
from tests.logs.raising import traceback
from tests.observations import link, rollout_case


def table(rows: int, module: str = "model.layers.0.self_attn.rotary_emb") -> dict[str, Any]:
    return {"module": module, "kind": "RotaryEmbedding", "rows": rows}


def test_fewer_rows_than_positions() -> None:
    (finding,) = judge_one(check, rollout_case(rotary=[table(4096), table(1024)])).findings
    assert "has 1024 rows, the engine accepts 2048 positions" in finding.message
    assert finding.fixes[0].edits[0].value == 1024


@pytest.mark.parametrize("module", ["visual.blocks.0.rotary", "vision_tower.rotary_emb", "audio_tower.rotary_emb"])
def test_other_towers_count_patches(module: str) -> None:
    assert judge_one(check, rollout_case(rotary=[table(2048), table(64, module)])).outcome is Outcome.PASS


def test_a_model_without_rotary_embedding() -> None:
    assert judge_one(check, rollout_case(rotary=[])).findings == ()


def test_sizes_that_do_not_match_in_rotary_code() -> None:
    message = "The size of tensor a (1034) must match the size of tensor b (1035) at non-singleton dimension 1"
    rotary = link("RuntimeError", message, "vllm/model_executor/layers/rotary_embedding/base.py:88")
    other = link("RuntimeError", message, "verl/trainer/ppo/core_algos.py:20")
    (finding,) = judge_one(check, rollout_case("raised", exceptions=[rotary])).findings
    assert finding.evidence[0].text == "The size of tensor a (1034) must match the size of tensor b (1035)"
    assert finding.evidence[1].line == 88
    assert judge_one(check, rollout_case("raised", exceptions=[other])).findings == ()


def test_a_mask_of_another_length_than_the_prompt() -> None:
    # https://github.com/Liuziyu77/Visual-RFT/issues/201
    told = "The shape of the mask [198] at index 0 does not match the shape of the indexed tensor [197] at index 0"
    text = traceback(f"IndexError: {told}", "transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py get_rope_index")
    assert "198 positions and the prompt 197 tokens" in logged(check, text).message
    assert unsaid(check, traceback(f"IndexError: {told}", "user/masks.py select")) == []


def test_the_line_above_the_message_is_rotary_code() -> None:
    # https://github.com/huggingface/open-r1/issues/176
    said = "[rank2]: RuntimeError: The size of tensor a (1133) must match the size of tensor b (1134) at dimension 2\n"
    code = "[rank2]:     {} = (q * cos) + ({}(q) * sin)\n[rank2]:                ~~^~~~~\n"
    assert "1133 against 1134" in logged(check, code.format("q_embed", "rotate_half") + said).message
    assert unsaid(check, code.format("loss", "clipped") + said) == []


def test_rope_settings_that_the_engine_refuses() -> None:
    error = link(
        "KeyError", "'original_max_position_embeddings'", "vllm/model_executor/layers/rotary_embedding/__init__.py"
    )
    (finding,) = judge_one(check, rollout_case("raised", exceptions=[error], stage="boot")).findings
    assert finding.message.endswith("at stage boot")
    circumstance = link("ValueError", "no room for the cache: " + "x" * 300 + " rope_scaling=None", "vllm/x.py")
    assert judge_one(check, rollout_case("raised", exceptions=[circumstance])).findings == ()


@pytest.mark.engine
def test_a_healthy_engine(rollout: Callable[..., Case]) -> None:
    result = judge_one(check, rollout())
    assert result.outcome is Outcome.PASS
    assert "2048 rows for max_model_len 2048" in str(result.reason)


@pytest.mark.engine
def test_an_engine_that_was_talked_into_more_positions_than_the_model_has(rollout: Callable[..., Case]) -> None:
    """What VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 does."""
    (finding,) = judge_one(check, rollout(max_model_len=4096)).findings
    assert "has 2048 rows, the engine accepts 4096 positions" in finding.message
