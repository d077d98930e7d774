"""RLD215: templates that are asked for and not there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rldoctor_checks.rollout.chat_template import check

from rldoctor.api import Outcome, Severity
from rldoctor.api.facts import ModelFiles
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from tests.logs.asking import finding, raised
from tests.logs.raising import found, traceback
from tests.plans import case, edits

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def judged(
    tokenizer: dict[str, Any] | None,
    files: dict[str, int] | None = None,
    config: dict[str, Any] | None = None,
    **facts: Any,
) -> CheckResult:
    model = ModelFiles(path="model", config=config or {}, tokenizer_config=tokenizer, files=files or {})
    return judge_one(check, replace(case(**facts), model=model))


def test_a_base_model_with_apply_chat_template() -> None:
    result = judged({"eos_token": "<|endoftext|>"}, framework="OpenRLHF", model__apply_chat_template=True)
    assert "transformers raises at the first prompt" in result.findings[0].message
    assert "--input_template" in result.findings[0].fixes[1].title
    assert edits(result)[1] == {"model.apply_chat_template": False}


def test_verl_always_applies_a_template() -> None:
    assert judged({}, framework="verl").outcome is Outcome.FINDINGS
    assert judged({}, framework="verl", model__chat_template="{{ x }}").outcome is Outcome.PASS


def test_what_is_not_downloaded_yet_is_not_missing() -> None:
    cached = ModelFiles(path="model", config={}, tokenizer_config={"eos_token": "<|endoftext|>"}, cached=True)
    result = judge_one(check, replace(case("verl"), model=cached))
    assert result.outcome is Outcome.NOT_CHECKED and "not downloaded yet" in str(result.reason)


def test_templates_are_found_where_transformers_looks() -> None:
    assert judged({"chat_template": "{{ x }}"}, framework="verl").outcome is not Outcome.FINDINGS
    assert judged({}, {"chat_template.jinja": 100}, framework="verl").outcome is Outcome.PASS


def test_nobody_asks_for_a_template() -> None:
    for framework in ("OpenRLHF", "TRL", "ms-swift"):
        assert judged({}, framework=framework).findings == ()


def test_old_transformers_have_a_default_template() -> None:
    old = {"transformers": "4.43.4"}
    assert judged({}, framework="verl", versions=old).outcome is not Outcome.FINDINGS


def test_a_base_model_that_stops_at_another_token_is_a_note() -> None:
    tokenizer = {
        "chat_template": CHATML,
        "eos_token": "<|endoftext|>",
        "added_tokens_decoder": {"7": {"content": "<|endoftext|>"}, "9": {"content": "<|im_end|>"}},
    }
    (finding,) = judged(tokenizer, config={"eos_token_id": 7}, framework="verl").findings
    assert finding.severity is Severity.NOTE
    instruct = judged(tokenizer, config={"eos_token_id": [9, 7]}, framework="verl")
    assert instruct.outcome is Outcome.PASS


# transformers 5.19 on a base model, shared case hf_no_chat_template.
REFUSED = (
    "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no template "
    "argument "
    "was passed! For information about writing templates, please see the documentation"
)


def test_the_tokenizer_refuses() -> None:
    (finding,) = found(check, traceback(REFUSED, "transformers/tokenization_utils_base.py get_chat_template"))
    assert "chat_template" in finding.fixes[0].title


def test_the_template_refuses_a_role() -> None:
    error = "jinja2.exceptions.TemplateError: System role not supported"
    (finding,) = found(check, traceback(error, "jinja2/environment.py handle_exception"))
    assert finding.message == "the chat template refuses the conversation: System role not supported"
    assert found(check, "WARNING: System role not supported by this reward, skipping\nDONE\n") == []


def test_turns_that_change_when_they_are_encoded_anew() -> None:
    # https://github.com/PrimeIntellect-ai/prime-rl/issues/1334
    asserted = "assert token_prefix_with_turn[: len(token_prefix)] == token_prefix, ("
    where = "/opt/venv/lib/python3.12/site-packages/verifiers/utils/processing_utils.py process_chat_format_vllm"
    assert "its next turn" in finding(check, raised("AssertionError", "", where, code=asserted)).message
