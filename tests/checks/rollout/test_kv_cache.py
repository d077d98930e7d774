"""RLD205: weights and one sequence against the engine's share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rldoctor_checks.rollout.kv_cache import check

from rldoctor.api import Outcome
from rldoctor.api.facts import Gpu, Gpus
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one
from rldoctor.plan.model import Setting, Source
from tests.logs.asking import finding, findings, raised
from tests.plans import case, edits

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
}
CORE = "/opt/venv/lib/python3.12/site-packages/vllm/v1/core/kv_cache_utils.py check_enough_kv_cache_memory"


def on(gib: int, config: dict[str, Any] = LLAMA_8B, framework: str = "vLLM", **settings: Any) -> CheckResult:
    asked = case(framework, config=config, **settings)
    gpus = Gpus(vendor="nvidia", devices=(Gpu(index=0, name="GPU", memory_total=gib << 30),))
    return judge_one(check, replace(asked, gpus=gpus))


def test_a_context_of_131072_tokens_on_24_gib() -> None:
    # https://github.com/vllm-project/vllm/issues/16118
    result = on(24, engine__gpu_memory_utilization=0.92, engine__max_model_len=131072)
    assert "needs 16.0 GiB of KV cache" in result.findings[0].message
    assert "at most 7.1 GiB" in result.findings[0].message
    limit = edits(result)[0]["engine.max_model_len"]
    assert isinstance(limit, int)
    again = on(24, engine__gpu_memory_utilization=0.92, engine__max_model_len=limit)
    assert again.outcome is Outcome.PASS


def test_the_models_context_where_nobody_sets_one() -> None:
    result = on(24, engine__gpu_memory_utilization=0.9, engine__max_model_len=None)
    assert "131072" in result.findings[0].message
    assert on(24, framework="verl", engine__gpu_memory_utilization=0.9).outcome is Outcome.NOT_CHECKED


def test_more_ranks_fewer_bits_or_a_larger_device_are_quiet() -> None:
    share: dict[str, Any] = {"engine__gpu_memory_utilization": 0.9, "engine__max_model_len": 131072}
    assert on(24, engine__tensor_parallel_size=4, **share).outcome is Outcome.PASS
    assert on(80, **share).outcome is Outcome.PASS
    # The cache alone in 8 bits is not enough, with the weights in 4 it is.
    assert on(24, engine__kv_cache_dtype="fp8", **share).outcome is Outcome.FINDINGS
    assert on(24, engine__kv_cache_dtype="fp8", engine__quantization="awq", **share).outcome is Outcome.PASS


def test_a_share_below_the_weights_leaves_no_block() -> None:
    result = on(24, engine__gpu_memory_utilization=0.5, engine__max_model_len=2048, placement__mode="server")
    assert "there is no block for the KV cache" in result.findings[0].message
    (larger,) = (value for fix in edits(result) for name, value in fix.items() if name.endswith("utilization"))
    assert isinstance(larger, float)
    assert on(24, engine__gpu_memory_utilization=larger, engine__max_model_len=2048).outcome is Outcome.PASS


@pytest.mark.parametrize("option", ["engine.tensor_parallel_size", "engine.cpu_offload_gb"])
def test_what_makes_the_weights_smaller_may_stand_in_what_was_not_read(option: str) -> None:
    asked = case("vLLM", config=LLAMA_8B, engine__gpu_memory_utilization=0.5, engine__max_model_len=2048)
    assert asked.plan is not None
    hidden = Setting(source=Source.DEFAULT, unknown="not set in what was read, but $MORE may hold more options")
    lost = replace(asked.plan, settings={**asked.plan.settings, option: hidden})
    gpus = Gpus(vendor="nvidia", devices=(Gpu(index=0, name="GPU", memory_total=24 << 30),))
    result = judge_one(check, replace(asked, plan=lost, gpus=gpus))
    assert result.outcome is Outcome.NOT_CHECKED and option.partition(".")[2] in (result.reason or "")


def test_the_response_is_what_a_rollout_shortens() -> None:
    result = on(
        24,
        framework="verl",
        engine__gpu_memory_utilization=0.7,
        engine__max_model_len=65536,
        lengths__prompt=1024,
        lengths__response=64512,
    )
    assert {"lengths.response", "engine.max_model_len"} in [set(fix) for fix in edits(result)]


def test_a_number_of_blocks_that_holds_fewer_tokens() -> None:
    few: dict[str, Any] = {"engine__num_gpu_blocks_override": 100, "engine__block_size": 16}
    assert edits(on(80, engine__max_model_len=4096, **few)) == [{"engine.num_gpu_blocks_override": 256}]
    assert on(80, engine__gpu_memory_utilization=0.9, engine__max_model_len=1600, **few).findings == ()


def test_an_encoder_without_a_language_model_is_not_judged() -> None:
    assert on(80, engine__gpu_memory_utilization=0.01, engine__max_model_len=4096).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("message", "said"),
    [
        # vLLM 0.8.5, v1/core/kv_cache_utils.py and worker/worker.py
        (
            "To serve at least one request with the models's max seq len (262144), (32.00 GiB KV cache is needed, "
            "which is "
            "larger than the available KV cache memory (3.18 GiB).  Based on the available memory, the estimated "
            "maximum "
            "model length is 34736. Try increasing `gpu_memory_utilization`",
            "32.00 GiB are needed, 3.18 GiB are available",
        ),
        (
            "The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV "
            "cache "
            "(50000). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
            "the KV cache holds 50000 tokens",
        ),
        (
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the "
            "engine.",
            "leaves no memory for the KV cache",
        ),
    ],
)
def test_what_the_engine_says_at_start(message: str, said: str) -> None:
    assert said in finding(check, raised("ValueError", message, CORE)).message


def test_the_engines_own_estimate_is_the_fix() -> None:
    message = (
        "To serve at least one request with the models's max seq len (262144), (32.00 GiB KV cache is needed, which "
        "is larger "
        "than the available KV cache memory (3.18 GiB). Based on the available memory, the estimated maximum model "
        "length is "
        "34736."
    )
    found = finding(check, raised("ValueError", message, CORE))
    assert [(e.option, e.value) for e in found.fixes[0].edits] == [("engine.max_model_len", 34736)]


def test_a_context_that_holds_no_answer_is_no_fix() -> None:
    message = (
        "To serve at least one request with the model's max seq len (2048), (0.0 GiB KV cache is needed, which is "
        "larger than the available KV cache memory (0.0 GiB). Based on the available memory, the estimated maximum "
        "model length is 16."
    )
    fixes = finding(check, raised("ValueError", message, CORE)).fixes
    assert "num_gpu_blocks_override" in fixes[0].title
    assert [fix.edits for fix in fixes] == [(), ()]


def test_the_cpu_engines_cache_against_the_nodes_memory() -> None:
    message = (
        "Available memory on node 0 (6.92/9.21 GiB) on kv cache allocation is less than requested memory for kv "
        "(400.0 GiB)."
    )
    found = finding(check, raised("ValueError", message))
    assert found.fixes[0].edits[0].option == "env.VLLM_CPU_KVCACHE_SPACE"


def test_a_healthy_line_about_the_cache() -> None:
    assert findings(check, "INFO 11-20 21:24:36 [gpu_worker.py:298] Available KV cache memory: 52.31 GiB\n") == []
