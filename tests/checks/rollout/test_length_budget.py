"""RLD203: prompt, response, engine and model, each against the next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.rollout.length_budget import check

from rldoctor.api import Outcome, Severity
from rldoctor.judge import judge_one
from rldoctor.plan.model import Setting, Source
from tests.checks.launches import LaunchFile
from tests.logs.asking import finding, findings, raised
from tests.plans import QWEN2_7B, edits, judged
from tests.plans import case as planned

MATH = {**QWEN2_7B, "max_position_embeddings": 4096}


def test_fires_beyond_the_models_context() -> None:
    result = judged(check, config=MATH, engine__max_model_len=8192, lengths__prompt=2048, lengths__response=6144)
    (finding,) = result.findings
    assert finding.message == "max_model_len 8192 exceeds the model's context of 4096 tokens (max_position_embeddings)"
    # A shorter response alone would leave the engine the context that its model does not have.
    assert edits(result)[:2] == [{"lengths.response": 2048, "engine.max_model_len": 4096}, {}]
    assert finding.evidence[-1].source == "model/config.json"
    mended = {"engine__max_model_len": 4096, "lengths__prompt": 2048, "lengths__response": 2048}
    assert judged(check, config=MATH, **mended).outcome is Outcome.PASS


def test_a_context_that_follows_the_lengths_is_mended_with_them() -> None:
    derived = planned(config=MATH, lengths__prompt=2048, lengths__response=6144)
    assert derived.plan is not None
    context = Setting(value=8192, source=Source.DERIVED, how="prompt 2048 + response 6144")
    plan = replace(derived.plan, settings={**derived.plan.settings, "engine.max_model_len": context})
    result = judge_one(check, replace(derived, plan=plan))
    assert edits(result)[:1] == [{"lengths.response": 2048}]


def test_rope_scaling_stretches_the_model() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    for config in ({**MATH, "rope_scaling": yarn}, {**MATH, "rope_parameters": yarn}):
        assert judged(check, config=config, engine__max_model_len=16384).outcome is Outcome.PASS
        assert judged(check, config=config, engine__max_model_len=16385).outcome is Outcome.FINDINGS


def test_what_a_launch_changes_of_the_model_need_not_be_known() -> None:
    hidden = Setting(source=Source.GIVEN, unknown="MORE is not set", key="policy.hf_config_overrides")
    asked = planned(config=MATH, engine__max_model_len=8192)
    assert asked.plan is not None
    plan = replace(asked.plan, settings={**asked.plan.settings, "model.overrides": hidden})
    result = judge_one(check, replace(asked, plan=plan))
    assert result.outcome is Outcome.NOT_CHECKED and "MORE is not set" in (result.reason or "")


def test_llama3_scaling_counts_in_max_position_embeddings_already() -> None:
    config = {"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}
    assert judged(check, config=config, engine__max_model_len=131072).outcome is Outcome.PASS
    assert judged(check, config=config, engine__max_model_len=131073).outcome is Outcome.FINDINGS


def test_a_multimodal_models_text_config_counts() -> None:
    config = {"model_type": "qwen2_5_vl", "text_config": MATH}
    assert judged(check, config=config, engine__max_model_len=8192).outcome is Outcome.FINDINGS


def test_incomplete_rope_scaling_is_not_judged_here() -> None:
    config = {**MATH, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
    assert judged(check, config=config, engine__max_model_len=8192).outcome is Outcome.NOT_CHECKED


def test_answers_that_the_engine_cuts_off_are_a_warning() -> None:
    result = judged(check, engine__max_model_len=4096, lengths__prompt=3072, lengths__response=2048)
    (finding,) = result.findings
    assert finding.severity is Severity.WARNING
    assert edits(result) == [{"engine.max_model_len": 5120}, {"lengths.response": 1024}, {"lengths.prompt": 2048}]


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ({}, {"lengths.response": 1024, "engine.max_model_len": 4096}),
        ({"lengths__response": 1024}, {"engine.max_model_len": 4096}),
        ({"engine__rope_scaling": '{"rope_type": "yarn"}'}, {"engine.max_model_len": 7168}),
    ],
)
def test_the_engines_context_is_not_widened_beyond_the_models(changed: dict[str, Any], first: dict[str, Any]) -> None:
    settings = {"engine__max_model_len": 2048, "lengths__prompt": 3072, "lengths__response": 4096, **changed}
    result = judged(check, config=MATH, **settings)
    assert edits(result)[0] == first


def test_a_prompt_that_the_engine_refuses_is_an_error() -> None:
    result = judged(check, engine__max_model_len=2048, lengths__prompt=2049, lengths__response=16)
    assert result.findings[0].severity is Severity.ERROR
    # Of prompts that fill the context and no more, the longest alone are refused.
    result = judged(check, engine__max_model_len=2048, lengths__prompt=2048, lengths__response=16)
    assert result.findings[0].severity is Severity.WARNING


def test_a_response_longer_than_the_context_needs_no_prompt_to_be_wrong() -> None:
    result = judged(check, engine__max_model_len=1024, lengths__response=2048)
    (finding,) = result.findings
    assert finding.severity is Severity.WARNING
    assert edits(result) == [{"lengths.response": 512}, {"engine.max_model_len": 3072}]


def test_an_engine_that_needs_less_than_it_asks_for_takes_the_models_context() -> None:
    result = judged(check, config=MATH, engine__max_model_len=8192, lengths__prompt=1024, lengths__response=2048)
    assert edits(result)[:1] == [{"engine.max_model_len": 4096}]


def test_a_response_longer_than_the_model_without_a_prompt_that_is_known() -> None:
    result = judged(check, config=MATH, lengths__response=8192)
    assert result.findings[0].message.startswith("responses of 8192 tokens exceed the model's context of 4096")
    assert judged(check, config=MATH, lengths__response=4000).findings == ()


def test_sglang_refuses_a_context_beyond_the_models_too() -> None:
    sglang = {"framework": "slime", "rollout__backend": "sglang"}
    result = judged(check, config=MATH, engine__max_model_len=8192, lengths__response=1024, **sglang)
    assert "exceeds the model's context of 4096" in result.findings[0].message


def test_the_whole_context_as_the_response_means_what_is_left_of_it() -> None:
    assert judged(check, engine__max_model_len=4096, lengths__response=4096).findings == ()


ENDLESS = {"sampling__min_tokens": 512, "lengths__prompt": 1024, "engine__max_model_len": 1280}


@pytest.mark.parametrize("version", ["0.11.1", "0.20.2", "0.28.0"])
def test_min_tokens_that_a_release_waits_for_without_end(version: str) -> None:
    result = judged(check, versions={"vllm": version}, **ENDLESS)
    (finding,) = result.findings
    assert "min_tokens 512 after a prompt of 1024 exceeds max_model_len 1280" in finding.message
    assert finding.severity is Severity.ERROR and finding.evidence[-1].text == f"vllm {version}"
    assert edits(result) == [{"engine.max_model_len": 1536}, {"sampling.min_tokens": 256}, {}]


@pytest.mark.parametrize("version", ["0.9.1", "0.11.0", "0.29.0", "0.32.0"])
def test_min_tokens_on_releases_that_end_at_the_context(version: str) -> None:
    assert judged(check, versions={"vllm": version}, **ENDLESS).findings == ()


def test_min_tokens_that_fit_are_no_matter() -> None:
    fits = {**ENDLESS, "sampling__min_tokens": 256}
    assert judged(check, versions={"vllm": "0.20.2"}, **fits).findings == ()


def test_quiet_where_everything_fits() -> None:
    result = judged(check, config=QWEN2_7B, engine__max_model_len=8192, lengths__prompt=4096, lengths__response=4096)
    assert result.outcome is Outcome.PASS
    said = "max_model_len 8192, model context 32768; prompt 4096 + response 4096 within 8192"
    assert result.reason is not None and result.reason.startswith(said)


def test_one_number_for_prompt_and_engine_is_ms_swifts_whole_sequence() -> None:
    settings = {"engine__max_model_len": 2048, "lengths__prompt": 2048, "lengths__response": 1024}
    assert judged(check, framework="ms-swift", **settings).findings[0].severity is Severity.NOTE
    assert judged(check, framework="TRL", **settings).findings[0].severity is Severity.WARNING


def test_no_answer_of_full_length_is_left_where_it_takes_the_whole_context() -> None:
    # https://github.com/modelscope/ms-swift/issues/9435; ms-swift's own examples do so, too.
    settings = {"engine__max_model_len": 1024, "lengths__prompt": 1024, "lengths__response": 1024}
    assert judged(check, framework="ms-swift", **settings).findings[0].severity is Severity.NOTE


def test_a_dialogue_that_outgrows_the_engine() -> None:
    turns = {"lengths__prompt": 1024, "lengths__turn": 2048, "lengths__turns": 4}
    assert judged(check, engine__max_model_len=9216, **turns).findings == ()
    assert judged(check, engine__max_model_len=8192, **turns).findings[0].severity is Severity.NOTE
    assert judged(check, engine__max_model_len=2560, **turns).findings[0].severity is Severity.WARNING


@pytest.mark.parametrize(
    ("message", "said"),
    [
        # vLLM 0.6.3 to 0.9 (server), 0.10, 0.20, 0.32 (server and LLM)
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5120 tokens (3072 in the "
            "messages, "
            "2048 in the completion). Please reduce the length of the messages or completion.",
            "a prompt of 3072 tokens and 2048 tokens to generate do not fit into the engine's max_model_len 4096",
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 8192 "
            "tokens "
            "and your request has 31 input tokens (8192 > 8192 - 31).",
            "a prompt of 31 tokens and 8192 tokens to generate",
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 2048 output tokens and your "
            "prompt "
            "contains at least 2049 input tokens, for a total of at least 4097 tokens.",
            "a prompt of 2049 tokens and 2048 tokens to generate",
        ),
        (
            "This model's maximum context length is 128 tokens. However, your prompt contains at least 129 input "
            "tokens, which "
            "exceeds this limit even without any output tokens.",
            "a prompt of 129 tokens does not fit into the engine's max_model_len 128",
        ),
        # https://github.com/huggingface/trl/issues/3569 and the multimodal text of 0.7
        (
            "The decoder prompt (length 3353) is longer than the maximum model length of 2560. Make sure that "
            "`max_model_len`",
            "a prompt of 3353 tokens does not fit into the engine's max_model_len 2560",
        ),
        (
            "The prompt (total length 9000) is too long to fit into the model (context length 8192).",
            "a prompt of 9000 tokens",
        ),
        # https://github.com/TIGER-AI-Lab/verl-tool/issues/88
        ("max_tokens must be at least 1, got -238.", "-238 tokens are left for the answer"),
        # https://github.com/vllm-project/vllm/issues/25120
        (
            "Sampled token IDs exceed the max model length. Total number of tokens: 1281 > max_model_len: 1280",
            "a prompt fills the engine's max_model_len 1280 to the last token",
        ),
        (
            "User-specified max_model_len (4096) is greater than the derived max_model_len "
            "(max_position_embeddings=2048.0 or "
            "model_max_length=None in model's config.json).",
            "max_model_len 4096 exceeds the model's context of 2048 tokens (max_position_embeddings)",
        ),
        ("Prompt length 1377 is longer than 1024.", "1377 tokens is longer than the prompt limit 1024"),
        ("sequence_length=1377 is larger than max_length=1024", "1377 tokens is longer than the prompt limit 1024"),
        ("model context length should be greater than total sequence length", "max_position_embeddings"),
    ],
)
def test_refusals_in_a_log(message: str, said: str) -> None:
    assert said in finding(check, raised("ValueError", message)).message


def test_a_prompt_that_v0_gives_up() -> None:
    # https://github.com/verl-project/verl/issues/673: no exception; the run fails where its output is used
    line = "WARNING 11-20 [scheduler.py:897] Input prompt (6768 tokens) is too long and exceeds limit of 4096\n"
    found = findings(check, line + raised("IndexError", "list index out of range"))
    assert found[0].message.startswith("a prompt of 6768 tokens")


def test_a_limit_that_is_only_stated() -> None:
    assert findings(check, "INFO 11-20 [x.py:3] Using max model len 4096, the model's own\n") == []


def test_a_longer_context_leaves_room_for_the_response() -> None:
    (found,) = findings(
        check, raised("ValueError", "Prompt length of 129 is longer than the maximum model length of 128.")
    )
    assert found.fixes[0].edits == ()
    assert "holds prompt and response" in found.fixes[0].title


@pytest.mark.parametrize(
    ("response", "more", "fires"),
    [
        (40000, {}, True),
        (30000, {}, False),
        (40000, {"engine__max_model_len": 41024}, False),  # which the other findings judge
        (40000, {"engine__rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, False),
    ],
)
def test_without_a_length_of_its_own_the_engine_has_the_models(
    response: int, more: dict[str, Any], fires: bool
) -> None:
    result = judged(check, config=QWEN2_7B, lengths__prompt=1024, lengths__response=response, **more)
    said = f"prompt 1024 + response {response} = {1024 + response} tokens exceed the model's context of 32768"
    assert any(finding.message.startswith(said) for finding in result.findings) == fires


PRIME = (
    "python -m prime_rl.entrypoints.rl --seq-len 8192 --orchestrator.batch-size 64 --model.name m "
    "--orchestrator.train.sampling.max-completion-tokens "
)
SLIME = (
    "python3 train.py --hf-checkpoint m --rollout-batch-size 8 --n-samples-per-prompt 8 --actor-num-gpus-per-node 8 "
    "--rollout-max-context-len 8192 --rollout-max-response-len "
)


@pytest.mark.parametrize(("package", "version", "text"), [("prime-rl", "0.8.0", PRIME), ("slime", "0.3.1", SLIME)])
def test_a_response_longer_than_the_whole_sequence(package: str, version: str, text: str, tmp_path: Path) -> None:
    file = LaunchFile(tmp_path, f"{text}16384\n", {package: version})
    (found,) = file.findings(check)
    assert found.severity is Severity.WARNING and "prompt and response together" in found.message
    assert [fix.edits[0].value for fix in found.fixes] == [4096, 24576]
    assert LaunchFile(tmp_path, f"{text}8192\n", {package: version}).findings(check) == []
