"""RLD204 in a model's config and in a log: rotary scalings that are incomplete or contradict themselves."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.rollout.rotary_length import check

from rldoctor.api import Outcome
from rldoctor.api.results import CheckResult
from tests.logs.asking import finding, findings, raised
from tests.plans import QWEN2_7B, edits, judged

YARN = {"rope_type": "yarn", "factor": 4.0}
COMPLETE = {**YARN, "original_max_position_embeddings": 32768}
OLD = {"vllm": "0.10.2", "transformers": "4.56.2"}
ROTARY = "/opt/venv/lib/python3.12/site-packages/transformers/models/qwen2/modeling_qwen2.py apply_rotary_pos_emb"


def scaled(scaling: dict[str, Any], versions: dict[str, str] = OLD, **more: Any) -> CheckResult:
    return judged(check, versions=versions, config={**QWEN2_7B, "rope_scaling": scaling}, **more)


def test_yarn_without_the_original_length() -> None:
    result = scaled(YARN)
    assert "lacks original_max_position_embeddings" in result.findings[0].message
    assert {"engine.hf_overrides": {"rope_scaling": COMPLETE}} in edits(result)
    assert scaled(YARN, engine__hf_overrides={"rope_scaling": COMPLETE}).outcome is Outcome.PASS
    assert scaled(COMPLETE).outcome is Outcome.PASS


def test_an_override_of_the_launch_is_judged_and_completed() -> None:
    given = {"max_window_layers": 28, "rope_scaling": YARN}
    result = judged(check, versions=OLD, config=QWEN2_7B, engine__hf_overrides=given)
    assert {"engine.hf_overrides": {**given, "rope_scaling": COMPLETE}} in edits(result)


def test_transformers_5_fills_it_in() -> None:
    assert scaled(YARN, {"vllm": "0.20.0", "transformers": "5.1.0"}).outcome is Outcome.PASS
    assert scaled(YARN, {"vllm": "0.11.0"}).outcome is Outcome.FINDINGS


def test_a_multimodal_models_text_config_counts() -> None:
    config = {"model_type": "qwen2_5_vl", "text_config": {**QWEN2_7B, "rope_scaling": YARN}}
    assert judged(check, versions=OLD, config=config).outcome is Outcome.FINDINGS


@pytest.mark.parametrize(
    ("scaling", "lacks"),
    [
        ({"factor": 4.0}, "no rope_type"),
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "dynamic"}, "factor"),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, "low_freq_factor"),
        ({"type": "mrope"}, "mrope_section"),
        ({"rope_type": "yarn", "type": "linear", "factor": 2.0}, "two kinds"),
    ],
)
def test_other_kinds(scaling: dict[str, Any], lacks: str) -> None:
    assert lacks in scaled(scaling).findings[0].message


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "mrope", "mrope_section": [16, 24, 24]},
        {"type": "default", "rope_type": "default", "mrope_section": [16, 24, 24]},
        {"type": "dynamic", "alpha": 1000.0},
        {**COMPLETE, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ],
)
def test_complete_ones_are_quiet(scaling: dict[str, Any]) -> None:
    assert scaled(scaling).outcome is Outcome.PASS


def test_phi3_keeps_its_original_length_beside_the_scaling() -> None:
    config = {
        "model_type": "phi3",
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]},
    }
    assert judged(check, versions=OLD, config=config).outcome is Outcome.PASS


def test_mrope_on_the_release_that_asserts_a_factor() -> None:
    # https://github.com/verl-project/verl/issues/649
    section = {"type": "mrope", "mrope_section": [16, 24, 24]}
    result = scaled(section, {"vllm": "0.6.3", "transformers": "4.47.1"})
    assert "lacks factor" in result.findings[0].message


def test_a_base_that_only_transformers_5_reads() -> None:
    config = {**QWEN2_7B, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}}
    result = judged(check, versions=OLD, config=config)
    assert "rope_theta 1e+06 in rope_parameters" in result.findings[0].message
    new = judged(check, versions={"vllm": "0.20.0", "transformers": "5.1.0"}, config=config)
    assert new.outcome is Outcome.PASS
    both = judged(check, versions=OLD, config={**config, "rope_theta": 1000000.0})
    assert both.outcome is not Outcome.FINDINGS


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("KeyError", "'original_max_position_embeddings'"),
        ("ValueError", "rope_scaling should have a 'rope_type' key"),
        ("ValueError", "Unknown RoPE scaling type ntk-by-parts"),
        ("KeyError", "\"Missing required keys in `rope_scaling` for 'rope_type'='linear': {'factor'}\""),
    ],
)
def test_refusals_in_a_log(kind: str, message: str) -> None:
    assert "rope" in finding(check, raised(kind, message)).message


def test_sizes_that_do_not_match_count_in_rotary_code_alone() -> None:
    # https://github.com/unslothai/unsloth/issues/4612
    message = "The size of tensor a (1034) must match the size of tensor b (1035) at non-singleton dimension 1"
    code = "q_embed = (q * cos) + (rotate_half(q) * sin)"
    found = finding(check, raised("RuntimeError", message, ROTARY, code=code))
    assert "1034 against 1035 positions" in found.message
    assert findings(check, raised("RuntimeError", message, "/x/site-packages/trl/trainer/grpo_trainer.py loss")) == []
