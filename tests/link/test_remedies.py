"""What would keep a package from raising, as its condition has it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rldoctor.link.remedies import remedies


def ways(
    *conditions: str,
    package: str = "vllm",
    function: str = "C.verify",
    message: str = "",
    values: Mapping[str, str] | None = None,
) -> list[str]:
    return [way.text for way in remedies(package, function, conditions, message, values)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("not self.enable_sleep_mode", ["set enable_sleep_mode"]),
        ("self.max_num_seqs < 2", ["give max_num_seqs a value of at least 2"]),
        ("not (self.max_num_seqs >= 2)", ["give max_num_seqs a value of at least 2"]),
        ("kv_cache_dtype not in ['auto', 'fp8']", ["give kv_cache_dtype one of 'auto', 'fp8'"]),
        ("config.get('max_num_seqs', 1) % 2 != 0", ["give max_num_seqs a multiple of 2"]),
    ],
)
def test_a_test_of_one_setting(condition: str, expected: list[str]) -> None:
    assert ways(condition) == expected


def test_values_stand_in_the_message() -> None:
    shown = {"self.max_num_batched_tokens": "64", "self.max_num_seqs": "128"}
    found = remedies("vllm", "C.verify", ["self.max_num_batched_tokens < self.max_num_seqs"], "", shown)
    assert [(way.name, way.value) for way in found] == [("max_num_batched_tokens", 128), ("max_num_seqs", 64)]


def test_what_the_message_speaks_of_first_comes_first() -> None:
    condition = "self.vllm_mode is None and self.use_vllm"
    said = "vllm_mode is required when use_vllm is true"
    assert ways(condition, package="ms-swift", message=said) == ["give vllm_mode", "leave use_vllm off"]


def test_of_conditions_around_it_those_that_are_settings_too() -> None:
    around = ("self.async_generate", "not self.vllm_mode == 'server'")
    assert ways(*around, package="ms-swift", message="vllm_mode") == [
        "set vllm_mode to 'server'",
        "leave async_generate off",
    ]


@pytest.mark.parametrize(
    "conditions",
    [
        ("is_mp() and not self.enable_lora",),  # a flag that only opens the question
        ("self.quantization is None and weights_not_loaded",),
        ("end > limit",),  # no setting
        ("self.max_model_len > derived",),  # a value that nobody sees
        ("except ValueError",),
        ("(" * 50,),
        (),
    ],
)
def test_where_it_tells_nothing(conditions: tuple[str, ...]) -> None:
    assert ways(*conditions) == []


def test_parameters_of_a_request_are_in_no_table() -> None:
    asked = "self.max_tokens is not None and self.min_tokens > self.max_tokens"
    assert ways(asked, function="SamplingParams._verify_args", values={"self.max_tokens": "4"})[:1] == [
        "give min_tokens a value of at most 4 (max_tokens)"
    ]
    assert ways("self.n > 1", function="SamplingParams._verify_greedy_sampling") == ["give n a value of at most 1"]
    assert ways("self.bad_words_ids is None", function="SamplingParams._verify_args") == ["give bad_words_ids"]
    assert ways("self.bad_words_ids is None", function="Scheduler.step") == []
