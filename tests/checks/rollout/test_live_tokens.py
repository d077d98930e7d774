"""What the checks make of templates and the ends of completions in a running engine: RLD215 and RLD216."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.rollout import chat_template, vocabulary
from rldoctor_checks.sync import outputs_corrupt

from rldoctor.api import Case, Check, Finding, Grade, Outcome, Severity
from rldoctor.api.facts import ModelFiles
from rldoctor.judge import judge_one
from tests.observations import link, scenario_case
from tests.plans import case as planned

BOS, EOS, TURN = 1, 2, 7
TOKENIZER = {"class": "Fast", "size": 100, "largest": 99, "own": True, "rows": 128, "bos": BOS, "eos": EOS}
TEMPLATE = {"given": True, "text": "<s>user: 6 x 7", "ids": [BOS, 5, 6], "encoded": [BOS, BOS, 5, 6]}
STOPS = {"token": EOS, "token_ids": [EOS], "finish_reason": "stop"}
RUNS_ON = {"token": TURN, "token_ids": [TURN] * 4, "finish_reason": "length"}


def reported(settings: dict[str, Any] | None = None, **records: Any) -> Case:
    read = [{"about": about, "engine": [BOS, 5, 6], "tokenizer": [BOS, 5, 6]} for about in ("text", "messages")]
    healthy: dict[str, Any] = {"tokenizer": TOKENIZER, "template": TEMPLATE, "ends": {"eos": STOPS}, "read": read}
    plan = planned(**settings).plan if settings is not None else None
    return scenario_case("tokens", plan=plan, **{**healthy, **records})


def findings(check: Check, case: Case) -> list[Finding]:
    return list(judge_one(check, case).findings)


def test_a_tokenizer_that_fits() -> None:
    result = judge_one(chat_template.check, reported())
    assert result.outcome is Outcome.PASS
    # What happens when a rendered prompt is tokenized as any text is said, since no framework here does it.
    assert "add_special_tokens=False" in str(result.reason) and "stops at the tokenizer's end" in str(result.reason)
    assert "28 rows of padding" in str(judge_one(vocabulary.check, reported()).reason)


def test_a_template_that_raises() -> None:
    template = {"given": True, "exceptions": [link("jinja2.TemplateError", "roles must alternate")]}
    (finding,) = findings(chat_template.check, reported(template=template))
    assert finding.severity is Severity.WARNING and "roles must alternate" in finding.message
    (finding,) = findings(chat_template.check, reported({"model__apply_chat_template": True}, template=template))
    assert finding.severity is Severity.ERROR


def test_a_template_that_transformers_does_not_find() -> None:
    case = reported({"model__apply_chat_template": True}, template={"given": False})
    model = ModelFiles(path="model", config={}, files={"chat_template.jinja": 100}, tokenizer_config={})
    (finding,) = findings(chat_template.check, replace(case, model=model))
    assert "chat_template.jinja is not found" in finding.message and "4.57.0" in finding.evidence[0].text
    assert not findings(chat_template.check, reported(template={"given": False}))


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ([BOS, BOS, 5, 6], "from place 1 on [1, 5, 6] for [5, 6], 4 tokens for 3"),
        ([BOS, 5], "from place 2 on [] for [6], 2 tokens for 3"),
    ],
)
def test_an_engine_that_reads_a_text_as_other_tokens(engine: list[int], told: str) -> None:
    read = [{"about": "text", "engine": engine, "tokenizer": [BOS, 5, 6]}]
    (finding,) = findings(chat_template.check, reported(read=read))
    assert "reads text as other tokens than the tokenizer" in finding.message and told in finding.evidence[0].text
    assert finding.severity is Severity.ERROR
    (finding,) = findings(chat_template.check, reported(read=[{**read[0], "about": "messages"}]))
    assert finding.severity is Severity.WARNING


def test_an_engine_that_takes_no_texts_is_not_judged_by_them() -> None:
    result = judge_one(chat_template.check, reported(read=[{"about": "text", "refused": "ValueError: no tokenizer"}]))
    assert not result.findings and "takes no text: ValueError: no tokenizer" in str(result.reason)


def test_a_sequence_that_begins_twice() -> None:
    (finding,) = findings(chat_template.check, reported(template={**TEMPLATE, "ids": [BOS, BOS, 5]}))
    assert "begins the sequence twice" in finding.message
    # A tokenizer without a beginning of sequence cannot repeat it.
    without = {**TOKENIZER, "bos": None}
    assert not findings(chat_template.check, reported(tokenizer=without))


def test_an_end_that_is_left_out() -> None:
    (finding,) = findings(chat_template.check, reported(ends={"eos": {**STOPS, "token_ids": []}}))
    assert "leaves the tokenizer's end of sequence (2) out" in finding.message


def test_an_engine_that_runs_on_past_the_end() -> None:
    (finding,) = findings(
        chat_template.check, reported(ends={"eos": {**RUNS_ON, "token": EOS, "token_ids": [EOS] * 4}})
    )
    assert finding.severity is Severity.ERROR


def test_an_engine_that_runs_on_past_an_end_of_generation_config() -> None:
    other = {"token": 3, "token_ids": [3] * 4, "finish_reason": "length"}
    (finding,) = findings(chat_template.check, reported({}, ends={"eos": STOPS, "other": other}))
    assert finding.severity is Severity.ERROR
    assert "does not stop at an end that generation_config.json names (3)" in finding.message
    assert finding.fixes[0].title == "stop there: a stop token of sampling"
    stops = {**other, "token_ids": [3], "finish_reason": "stop"}
    assert not findings(chat_template.check, reported({}, ends={"eos": STOPS, "other": stops}))
    # One that ignores the stop tokens of requests, too, is told of as that (RLD219).
    ignored = reported({}, ends={"eos": STOPS, "other": other})
    expected = {"token_ids": [3], "finish_reason": "stop"}
    row = {"about": "stop_token_ids", "asked": [3], "expected": expected, "got": {"token_ids": [3] * 4}}
    job = {"ended": "done", "records": {"rows": [row], "surplus": 0}}
    ignored = replace(ignored, observations={**ignored.observations, "answers": {"run": job}})
    assert not findings(chat_template.check, ignored)


def test_an_engine_that_runs_on_past_the_end_of_a_turn() -> None:
    case = reported({"sampling__stop_token_ids": [9]}, ends={"eos": STOPS, "turn": RUNS_ON})
    (finding,) = findings(chat_template.check, case)
    assert (finding.severity, finding.grade) == (Severity.NOTE, Grade.REPRODUCED)
    assert finding.fixes[0].edits[0].value == [9, TURN]


def test_the_running_engine_is_asked_before_the_files() -> None:
    config = {"chat_template": "<|im_start|>x<|im_end|>", "eos_token": "<|endoftext|>"}
    model = ModelFiles(path="model", config={}, tokenizer_config=config)
    settings: dict[str, Any] = {"model__apply_chat_template": True}
    assert findings(chat_template.check, replace(planned(**settings), model=model))
    stops = replace(
        reported(settings, ends={"eos": STOPS, "turn": {**STOPS, "token": TURN, "token_ids": [TURN]}}), model=model
    )
    assert not findings(chat_template.check, stops)


def test_a_vocabulary_beyond_the_embedding() -> None:
    (finding,) = findings(vocabulary.check, reported(tokenizer={**TOKENIZER, "largest": 128}))
    assert "token ids up to 128, the embedding 128 rows" in finding.message
    assert not findings(vocabulary.check, reported(tokenizer={**TOKENIZER, "largest": 127}))


@pytest.mark.parametrize("check", [chat_template.check, vocabulary.check])
def test_without_a_tokenizer_nothing_is_said(check: Check) -> None:
    case = scenario_case("tokens", unread={"tokenizer": "the model comes without a tokenizer"})
    result = judge_one(check, case)
    assert result.outcome is Outcome.NOT_CHECKED and "without a tokenizer" in str(result.reason)


def test_tokens_that_are_misspelt_beside_their_log_probability() -> None:
    row = {"token_ids": [5, 6], "engine": "ab", "tokenizer": "ab", "misspelt": []}
    assert not findings(outputs_corrupt.check, reported(texts=[row]))
    (finding,) = findings(outputs_corrupt.check, reported(texts=[{**row, "misspelt": [["A", "a"]]}]))
    assert finding.code == "RLD404" and "calls 1 of its tokens otherwise" in finding.message
    # Texts that are wrong themselves are the one cause.
    (finding,) = findings(outputs_corrupt.check, reported(texts=[{**row, "engine": "AB", "misspelt": [["A", "a"]]}]))
    assert "are not those of their own tokens" in finding.message
