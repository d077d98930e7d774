"""RLD217: placeholders and features that disagree in number."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.multimodal_tokens import check

from rldoctor.api import Outcome
from rldoctor.logs.triage import triage_text
from tests.logs.raising import found, traceback
from tests.plans import QWEN2_7B, edits, judged

VISION = {"vision_config": {"depth": 32}, "text_config": QWEN2_7B}


def test_prompts_with_images_that_are_cut() -> None:
    result = judged(check, config=VISION, lengths__truncation="left", lengths__overlong_filtered=False)
    assert "prompts that are too long are cut (left)" in result.findings[0].message
    assert edits(result)[0] == {"lengths.overlong_filtered": True}


def test_filtered_or_refused_prompts_and_text_models_are_quiet() -> None:
    assert judged(check, config=VISION, lengths__truncation="error").outcome is Outcome.PASS
    filtered = judged(check, config=VISION, lengths__truncation="left", lengths__overlong_filtered=True)
    assert filtered.outcome is Outcome.PASS
    assert judged(check, config=QWEN2_7B, lengths__truncation="left").outcome is Outcome.NOT_APPLICABLE


# https://github.com/verl-project/verl/issues/3469 and https://github.com/hiyouga/EasyR1/issues/175
def test_which_side_has_more_tells_the_cause() -> None:
    sampled = "ValueError: Image features and image tokens do not match: tokens: 2641, features 2640"
    cut = "ValueError: Image features and image tokens do not match, tokens: 9214, features: 9861"
    (more,) = found(check, traceback(sampled, "transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py forward"))
    (fewer,) = found(check, traceback(cut, "transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py forward"))
    assert more.message.startswith("more image or video tokens than features: 2641 tokens, 2640 features")
    assert fewer.message.startswith("fewer image or video tokens than features: 9214 tokens, 9861 features")


# vllm/multimodal/processing.py (0.8.5)
def test_the_engine_counts_placeholders() -> None:
    error = (
        "RuntimeError: Expected there to be 1 prompt updates corresponding to 1 image items, but instead found "
        "0 prompt "
        "updates! Either the prompt text has missing/incorrect tokens for multi-modal inputs"
    )
    (finding,) = found(check, traceback(error, "vllm/multimodal/processing.py f"))
    assert finding.message.startswith("the prompt holds 0 placeholders for 1 image(s)")


def test_a_split_prompt_is_another_pattern() -> None:
    error = "ValueError: Attempted to assign 9214 = 9214 multimodal tokens to 8407 placeholders"
    text = traceback(error, "vllm/model_executor/models/utils.py f")
    assert [finding.code for finding in triage_text(text).findings] == ["RLD201"]


def test_placeholders_counted_by_position_ids() -> None:
    # https://github.com/microsoft/agent-lightning/issues/441
    error = (
        "RuntimeError: shape mismatch: value tensor of shape [3, 1287] cannot be broadcast to indexing result of shape "
        "[3, 1024]"
    )
    frame = "transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py get_rope_index"
    assert "1287 tokens, and 1024" in found(check, traceback(error, frame))[0].message
    assert found(check, traceback(error, "user/model.py forward")) == []
    frame = "vllm/model_executor/layers/rotary_embedding.py _vl_get_input_positions_tensor"
    error = "IndexError: list index out of range"
    (only,) = found(check, traceback(error, frame, code="image_grid_thw[image_index][0],"))
    assert "more image placeholders than images" in only.message


@pytest.mark.parametrize("kind", ["image", "video"])
def test_a_template_that_counts_placeholders(kind: str) -> None:
    # LLaMA-Factory's and LLaVA's.
    told = f"The number of {kind}s does not match the number of <{kind}> tokens in the prompt"
    (only,) = found(check, traceback(f"ValueError: {told}", "llamafactory/data/mm_plugin.py _validate_messages"))
    assert "placeholders" in only.message
    left_out = f"Skipping row 12: {told}\n"
    assert found(check, left_out + traceback("KeyError: 'answer'", "user/reward.py score")) == []


def test_position_ids_that_run_out_of_grids() -> None:
    # https://github.com/huggingface/transformers/pull/44472, https://github.com/modelscope/ms-swift/issues/9287
    text = traceback(
        "StopIteration",
        "transformers/models/qwen3_vl/modeling_qwen3_vl.py get_rope_index",
        code="grid_thw = next(grid_iters[modality_type])",
    )
    (finding,) = found(check, text)
    assert "more placeholders" in finding.message
    assert found(check, traceback("StopIteration", "torch/utils/data.py __next__", code="next(loader)")) == []


def test_images_of_another_size_than_the_prompt_was_written_for() -> None:
    # https://github.com/StarsfieldAI/R1-V/issues/133
    said = "ValueError: Attempted to assign 308 + 104 + 520 = 932 multimodal tokens to 1159 placeholders\n"
    report = triage_text(said)
    assert [found.code for found in report.findings] == ["RLD217"]
    assert "1159 placeholders for 932" in report.findings[0].message
