"""From a launch to the engine that live probes boot."""

from __future__ import annotations

from typing import Any

from rldoctor.api import Case, Gpus, Request, RolloutPlan, Setting
from rldoctor.probes.basis import basis
from tests.observations import packages


def options(version: str = "0.32.0", **settings: Any) -> dict[str, Any]:
    named = {f"engine.{name}": Setting(value=value) for name, value in settings.items()}
    plan = RolloutPlan(framework="vLLM", file="", entry="", settings=named) if settings else None
    case = Case(packages=packages(vllm=version), gpus=Gpus(vendor="none", devices=()), plan=plan)
    return dict(basis(case, Request()).options)


def test_the_cache_of_a_cpu_holds_few_sequences() -> None:
    told = options()
    assert told["num_gpu_blocks_override"] * told["block_size"] < 3 * told["max_model_len"]


def test_a_release_with_one_block_size_is_not_asked_for_another() -> None:
    assert "block_size" not in options("0.9.1")


def test_a_long_context_is_scaled_and_the_budget_with_it() -> None:
    told = options(max_model_len=8192, max_num_batched_tokens=4096)
    assert (told["max_model_len"], told["max_num_batched_tokens"]) == (2048, 1024)


def test_scaling_does_not_leave_a_step_without_a_token_for_each_sequence() -> None:
    told = options(max_model_len=131072, max_num_batched_tokens=2048, max_num_seqs=256)
    assert told["max_num_batched_tokens"] == told["max_num_seqs"] == 32
    refused = options(max_model_len=131072, max_num_batched_tokens=2048, max_num_seqs=4096)
    assert refused["max_num_seqs"] > refused["max_num_batched_tokens"]
