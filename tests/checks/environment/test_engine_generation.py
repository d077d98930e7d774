"""RLD110: frameworks that reach into an engine which this vLLM does not have."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.environment.engine_generation import check

from rldoctor.api import Outcome, Severity
from tests.logs.raising import found, traceback
from tests.plans import edits, judged


def trl(vllm: str, version: str = "0.15.2", **settings: Any) -> Any:
    versions = {"trl": version, "vllm": vllm}
    return judged(check, framework="TRL", versions=versions, **{"rollout__backend": "vllm", **settings})


def test_trl_0_15_takes_the_model_out_of_the_engine() -> None:
    result = trl("0.8.5")
    assert "runs its V1 engine in another process" in result.findings[0].message
    assert edits(result)[0] == {"env.VLLM_USE_V1": "0"}


def test_on_a_v0_engine_it_may() -> None:
    assert trl("0.7.3").outcome is not Outcome.FINDINGS
    assert trl("0.8.5", env__VLLM_USE_V1="0").outcome is not Outcome.FINDINGS
    assert trl("0.8.5", env__VLLM_ENABLE_V1_MULTIPROCESSING="0").outcome is not Outcome.FINDINGS


def test_later_releases_ask_the_engine() -> None:
    assert trl("0.10.2", version="0.24.0").outcome is not Outcome.FINDINGS
    pairwise = trl("0.10.0", version="0.19.1", trainer__algorithm="online_dpo")
    assert "(online DPO)" in pairwise.findings[0].message


def test_openrlhf_before_0_5_8() -> None:
    old = {"framework": "OpenRLHF", "rollout__backend": "vllm"}
    assert judged(check, versions={"openrlhf": "0.5.7", "vllm": "0.8.5"}, **old).outcome is Outcome.FINDINGS
    assert judged(check, versions={"openrlhf": "0.5.7", "vllm": "0.7.2"}, **old).outcome is not Outcome.FINDINGS
    # 0.8.0 and 0.8.1 give way to V0 for OpenRLHF's own worker class
    assert judged(check, versions={"openrlhf": "0.5.7", "vllm": "0.8.1"}, **old).outcome is not Outcome.FINDINGS


@pytest.mark.parametrize(
    ("vllm", "severity"), [("0.11.0", Severity.ERROR), ("0.12.0", Severity.WARNING), ("0.10.2", None)]
)
def test_v0_asked_of_a_vllm_without_it(vllm: str, severity: Severity | None) -> None:
    result = judged(check, framework="vLLM", versions={"vllm": vllm}, env__VLLM_USE_V1="0")
    assert [f.severity for f in result.findings] == ([severity] if severity else [])


def test_an_asynchronous_v1_engine_that_the_environment_forbids() -> None:
    verl = {"versions": {"verl": "0.5.0", "vllm": "0.9.1"}, "env__VLLM_USE_V1": "0"}
    result = judged(check, **verl, rollout__async_engine=True)
    assert edits(result)[0] == {"env.VLLM_USE_V1": "1"}
    assert judged(check, **verl, rollout__async_engine=False).outcome is not Outcome.FINDINGS


def test_unsloth_attaches_no_engine_to_full_fine_tuning() -> None:
    unsloth = {"framework": "unsloth", "versions": {"unsloth": "2025.9.9"}, "rollout__enabled": True}
    assert "full_finetuning" in judged(check, **unsloth, trainer__full=True).findings[0].message
    assert judged(check, **unsloth, trainer__full=False).outcome is not Outcome.FINDINGS


# https://github.com/OpenRLHF/OpenRLHF/issues/922, vllm/v1/engine/async_llm.py (0.8.5), unsloth issue 2107
def test_refusals_in_a_log() -> None:
    error = "AttributeError: 'LLMEngine' object has no attribute 'model_executor'"
    (finding,) = found(check, traceback(error, "vllm/entrypoints/llm.py collective_rpc"))
    assert "LLMEngine.model_executor" in finding.message
    error = "ValueError: Using V1 AsyncLLMEngine, but envs.VLLM_USE_V1=False. This should not happen."
    (finding,) = found(check, traceback(error, "vllm/v1/engine/async_llm.py __init__"))
    assert finding.fixes[0].edits[0].value == "1"
    error = "AttributeError: 'Qwen2ForCausalLM' object has no attribute 'vllm_engine'"
    (finding,) = found(check, traceback(error, "unsloth_compiled_cache/UnslothGRPOTrainer.py __init__"))
    assert "fast_inference" in finding.fixes[0].title


def test_another_missing_attribute_is_quiet() -> None:
    assert found(check, traceback("AttributeError: 'LLM' object has no attribute 'generat'", "my/x.py f")) == []


# https://github.com/verl-project/verl/issues/940
def test_v1_with_an_attention_backend_of_v0() -> None:
    asked = {"framework": "verl", "env__VLLM_USE_V1": "1", "env__VLLM_ATTENTION_BACKEND": "XFORMERS"}
    result = judged(check, versions={"vllm": "0.8.2"}, **asked)
    assert "VLLM_USE_V1=1 is not supported with VLLM_ATTENTION_BACKEND=XFORMERS" in result.findings[0].message
    assert edits(result) == [{"env.VLLM_ATTENTION_BACKEND": None}]
    flash = {**asked, "env__VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}
    assert judged(check, versions={"vllm": "0.8.2"}, **flash).outcome is not Outcome.FINDINGS


def test_an_attention_backend_of_v0_gives_way_to_v0() -> None:
    assert trl("0.8.5", env__VLLM_ATTENTION_BACKEND="XFORMERS").outcome is not Outcome.FINDINGS


WORKER = "vllm/v1/worker/worker_base.py execute_method"


def test_a_method_of_the_workers_that_is_called_as_another_release_has_it() -> None:
    # https://github.com/OpenRLHF/OpenRLHF/issues/1193
    missing = "TypeError: WorkerWrap.update_weight() missing 1 required positional argument: 'empty_cache'"
    given = "TypeError: WorkerExtension.init_communicator() takes 5 positional arguments but 6 were given"
    assert "calls WorkerWrap.update_weight" in found(check, traceback(missing, WORKER))[0].message
    assert "calls WorkerExtension.init_communicator" in found(check, traceback(given, WORKER))[0].message
    assert found(check, traceback(missing, "my/x.py f")) == []
