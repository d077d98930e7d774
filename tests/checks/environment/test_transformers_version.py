"""RLD103: transformers is outside what vLLM or the framework works with."""

from __future__ import annotations

import pytest
from rldoctor_checks.environment.transformers_version import check

from rldoctor.api import Outcome
from tests.cases import assumed, commands, installed, judged, severities
from tests.logs.asking import finding, findings, raised


def test_aimv2_is_reported_from_versions_alone() -> None:
    result = judged(check, assumed(vllm="0.9.1", torch="2.7.0", transformers="4.55.4"))
    assert severities(result) == ["error"]
    assert "'aimv2' is already used by a Transformers config" in result.findings[0].message
    assert commands(result)[0] == "python -m pip install 'transformers>=4.51.1,<4.54'"


def test_transformers_5_on_an_old_vllm_and_an_old_framework() -> None:
    result = judged(check, assumed(vllm="0.11.0", torch="2.8.0", verl="0.6.1", transformers="5.0.0"))
    (one,) = result.findings  # both refuse the same package, and one change of it serves both
    assert "all_special_tokens_extended" in one.message
    assert "AutoModelForVision2Seq" in one.message
    assert commands(result) == ["python -m pip install 'transformers>=4.55.2,<5'"]
    assert "transformers==4.57.6" in one.fixes[0].title


def test_transformers_of_which_nobody_demands_anything() -> None:
    alone = judged(check, installed({"transformers": "4.57.1"}))
    assert alone.outcome is Outcome.NOT_APPLICABLE
    assert "no package here declares which transformers it works with" in (alone.reason or "")
    assert judged(check, assumed(transformers="4.57.1")).outcome is Outcome.NOT_CHECKED


@pytest.mark.parametrize(
    ("versions", "severity"),
    [
        ({"vllm": "0.10.2", "transformers": "4.53.0"}, "error"),  # below what vLLM declares
        ({"vllm": "0.14.0", "transformers": "5.0.0"}, "error"),  # vLLM declares <5
        ({"vllm": "0.14.0", "transformers": "5.0.0rc1"}, "error"),
        ({"vllm": "0.11.0", "easyr1": "0.3.2", "transformers": "4.57.1"}, "warning"),  # above EasyR1's bound
        ({"vllm": "0.11.0", "easyr1": "0.3.1", "transformers": "4.55.4"}, "warning"),
        ({"vllm": "0.9.0", "nemo_rl": "0.3.1", "transformers": "4.50.0"}, "error"),
        ({"vllm": "0.9.1", "openrlhf": "0.8.5", "transformers": "4.53.0"}, "warning"),
        ({"unsloth": "2025.9.9", "transformers": "4.57.1"}, "warning"),
    ],
)
def test_outside_a_declared_range(versions: dict[str, str], severity: str) -> None:
    assert severity in severities(judged(check, assumed(**versions)))


@pytest.mark.parametrize(
    "versions",
    [
        {"vllm": "0.9.1", "transformers": "4.53.3"},
        {"vllm": "0.10.0", "transformers": "4.55.4"},
        {"vllm": "0.11.0", "transformers": "4.57.1", "verl": "0.6.1"},
        {"vllm": "0.8.5.post1", "transformers": "4.52.3", "open_r1": "0.1.0.dev0", "trl": "0.18.0"},
        {"vllm": "0.10.2", "transformers": "4.56.1", "unsloth": "2025.9.9", "unsloth_zoo": "2025.9.12"},
        {"vllm": "0.24.0", "transformers": "5.9.0", "verl": "0.9.1"},
    ],
)
def test_versions_that_go_together_stay_quiet(versions: dict[str, str]) -> None:
    assert not judged(check, assumed(**versions)).findings


def test_a_pair_that_a_framework_ships_is_not_held_against_it() -> None:
    shipped = {"openrlhf": "0.9.5", "vllm": "0.17.0", "transformers": "5.3.0"}
    assert not judged(check, assumed(**shipped)).findings
    alone = judged(check, assumed(vllm="0.17.0", transformers="5.3.0"))
    assert severities(alone) == ["error"]


def test_a_framework_that_pins_its_engine_may_ask_for_newer_transformers_than_that_declares() -> None:
    # SkyRL 0.2.0 pins vllm==0.19.0 (transformers<5) and asks for transformers>=5.0.0,<=5.3.0.
    together = {"skyrl": "0.2.0", "vllm": "0.19.0", "transformers": "5.3.0"}
    assert not judged(check, assumed(**together)).findings
    assert severities(judged(check, assumed(**{**together, "transformers": "4.55.0"}))) == ["error"]
    assert severities(judged(check, assumed(**{**together, "vllm": "0.18.0"}))) == ["error"]


def test_without_transformers_nothing_is_judged() -> None:
    assert judged(check, installed({"vllm": "0.12.0"})).outcome is Outcome.NOT_APPLICABLE
    assert judged(check, assumed(vllm="0.12.0")).outcome is Outcome.NOT_CHECKED


SITE = "/opt/venv/lib/python3.11/site-packages"


def test_a_log_shows_that_transformers_is_ahead_of_vllm() -> None:
    text = raised(
        "ValueError",
        "'aimv2' is already used by a Transformers config, pick another name.",
        f"{SITE}/vllm/transformers_utils/configs/ovis.py <module>",
        f"{SITE}/transformers/models/auto/configuration_auto.py register",
    )
    found = finding(check, text)
    assert found.fixes[0].commands == ("python -m pip install 'transformers<4.54'",)
    assert found.fixes[0].valid_for == "vllm>=0.9.0,<0.10.0"


def test_a_class_that_transformers_5_dropped() -> None:
    """https://github.com/verl-project/verl/issues/5007"""
    message = f"cannot import name 'AutoModelForVision2Seq' from 'transformers' ({SITE}/transformers/__init__.py)"
    found = finding(check, raised("ImportError", message, f"{SITE}/verl/utils/model.py <module>"))
    assert "which verl uses: transformers 5 dropped it" in found.message
    assert "'transformers<5'" in found.fixes[0].commands[0]


def test_a_config_that_the_script_registers_twice_is_its_own_affair() -> None:
    text = raised(
        "ValueError",
        "'mine' is already used by a Transformers config, pick another name.",
        f"{SITE}/transformers/models/auto/configuration_auto.py register",
    )
    assert findings(check, text) == []


def test_the_line_alone_names_vllms_own_config() -> None:
    # https://github.com/unslothai/unsloth/issues/3081
    log = "ValueError: 'aimv2' is already used by a Transformers config, pick another name.\n"
    assert "vllm does not work with" in finding(check, log).message


def test_a_tokenizer_that_is_called_as_another_release_does() -> None:
    # https://github.com/unslothai/unsloth/issues/2853
    error = "got an unexpected keyword argument 'return_mm_token_type_ids'"
    message = f"PreTrainedTokenizerFast._batch_encode_plus() {error}"
    assert "return_mm_token_type_ids" in finding(check, raised("TypeError", message)).message
    assert findings(check, raised("TypeError", f"MyTokenizer.encode() {error}")) == []


MODULE = "vllm/model_executor/models/qwen2_moe.py __init__"


@pytest.mark.parametrize(
    ("error", "frames"),
    [
        # https://github.com/QwenLM/Qwen3/issues/724
        (
            "'Qwen2MoeConfig' object has no attribute 'mlp_only_layers'",
            (f"{SITE}/{MODULE}", f"{SITE}/transformers/configuration_utils.py __getattribute__"),
        ),
        (
            "'Qwen2_5OmniConfig' object has no attribute 'num_attention_heads'",
            (f"{SITE}/verl/utils/flops_counter.py __init__",),
        ),
    ],
)
def test_a_setting_that_another_release_keeps_elsewhere(error: str, frames: tuple[str, ...]) -> None:
    assert error.split("'")[3] in finding(check, raised("AttributeError", error, *frames)).message


@pytest.mark.parametrize(
    ("error", "frame"),
    [
        ("'ModelConfig' object has no attribute 'is_hybrid'", f"{SITE}/{MODULE}"),
        ("'Qwen2MoeConfig' object has no attribute 'hidden_size'", "/home/me/train.py main"),
        ("'MyConfig' object has no attribute 'judge'", f"{SITE}/verl/trainer/main_ppo.py main"),
    ],
)
def test_a_setting_of_another_kind_of_configuration(error: str, frame: str) -> None:
    assert findings(check, raised("AttributeError", error, frame)) == []
