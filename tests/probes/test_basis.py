"""From a launch to the engine that live probes boot."""

from __future__ import annotations

from typing import Any

import pytest

from rldoctor.api import Case, NotApplicable, RolloutPlan, Setting
from rldoctor.api.facts import Gpu, Gpus, ModelFiles
from rldoctor.api.probes import Basis, Request
from rldoctor.probes.basis import basis, with_counts
from tests.observations import packages

GIB = 1 << 30


def made(version: str, *devices: Gpu, **settings: Any) -> Basis:
    named = {f"engine.{name}": Setting(value=value) for name, value in settings.items()}
    plan = RolloutPlan(framework="vLLM", file="", entry="", settings=named) if settings else None
    gpus = Gpus(vendor="nvidia" if devices else "none", devices=devices)
    # Named, since it may be in use by others.
    asked = Request(devices=tuple(device.index for device in devices) or None)
    return basis(Case(packages=packages(vllm=version), gpus=gpus, plan=plan), asked)


def options(version: str = "0.32.0", **settings: Any) -> dict[str, Any]:
    return dict(made(version, **settings).options)


def gpu(used: float, total: int = 80) -> Gpu:
    return Gpu(index=0, name="H100", memory_total=total * GIB, memory_used=int(used * GIB))


def test_the_cache_of_a_cpu_holds_few_sequences() -> None:
    reported = options()
    assert reported["num_gpu_blocks_override"] * reported["block_size"] < 3 * reported["max_model_len"]


def test_a_release_with_one_block_size_is_not_asked_for_another() -> None:
    assert "block_size" not in options("0.9.1")


@pytest.mark.parametrize(("version", "word"), [("0.9.1", "all"), ("0.11.0", "all"), ("0.11.1", "nobind")])
def test_threads_are_bound_to_no_core_in_the_word_of_the_release(version: str, word: str) -> None:
    assert made(version).environ["VLLM_CPU_OMP_THREADS_BIND"] == word
    assert "VLLM_CPU_OMP_THREADS_BIND" not in made(version, gpu(0)).environ


def test_a_long_context_is_scaled_and_the_budget_with_it() -> None:
    reported = options(max_model_len=8192, max_num_batched_tokens=4096)
    assert (reported["max_model_len"], reported["max_num_batched_tokens"]) == (2048, 1024)


def test_a_budget_that_v0_takes_for_its_long_context_alone_is_not_refused_here() -> None:
    """TRL 0.19 gives 4096 tokens. With a context beyond 32768 V0 chunks prefill unasked, with the scaled one not."""
    asked = {"max_model_len": 40960, "max_num_batched_tokens": 4096}
    assert options("0.7.3", **asked)["max_num_batched_tokens"] == 2048
    on_a_gpu = dict(made("0.7.3", gpu(0), **asked).options)
    assert (on_a_gpu["enable_chunked_prefill"], on_a_gpu["max_num_batched_tokens"]) == (True, 205)
    # Up to 32768 it does not chunk, and refuses: that is what the launch would see, too.
    refused = options("0.7.3", max_model_len=8192, max_num_batched_tokens=4096)
    assert refused["max_num_batched_tokens"] < refused["max_model_len"]


def test_scaling_does_not_leave_a_step_without_a_token_for_each_sequence() -> None:
    reported = options(max_model_len=131072, max_num_batched_tokens=2048, max_num_seqs=256)
    assert reported["max_num_batched_tokens"] == reported["max_num_seqs"] == 32
    refused = options(max_model_len=131072, max_num_batched_tokens=2048, max_num_seqs=4096)
    assert refused["max_num_seqs"] > refused["max_num_batched_tokens"]


@pytest.mark.parametrize(("given", "asked"), [(0, 2), (1, 2), (5, 5), (-1, -1)])
def test_an_engine_without_log_probabilities_gives_the_probes_theirs(given: int, asked: int) -> None:
    assert options(max_logprobs=given)["max_logprobs"] == asked


def test_the_vocabulary_is_that_of_the_launchs_model() -> None:
    def vocabulary(**config: Any) -> int:
        model = ModelFiles(path="model", config=config)
        return basis(
            Case(packages=packages(vllm="0.32.0"), gpus=Gpus(vendor="none"), model=model), Request()
        ).vocabulary

    assert vocabulary(vocab_size=151936) == 151936 and vocabulary(text_config={"vocab_size": 262144}) == 262144
    assert vocabulary() == made("0.32.0").vocabulary == 0


def test_a_count_that_is_given_as_text_counts() -> None:
    assert options(max_model_len="8192", max_num_batched_tokens="4096")["max_num_batched_tokens"] == 1024
    assert options(max_model_len="auto")["max_model_len"] == 2048
    texts = {"engine.tensor_parallel_size": "2", "engine.seed": "0", "sampling.n": "many", "model.name": "7"}
    plan = RolloutPlan(framework="", file="", entry="", settings={n: Setting(value=v) for n, v in texts.items()})
    reported = with_counts(plan)
    assert [reported.value(name) for name in texts] == [2, 0, None, "7"]


class TestOnAGpu:
    """The launch's own options for the device, and a share that vLLM grants."""

    def test_what_the_launch_asks_of_the_device_arrives(self) -> None:
        asked = {
            "attention_backend": "TRITON_ATTN",
            "block_size": 32,
            "dtype": "float16",
            "enable_sleep_mode": True,
            "enforce_eager": False,
            "kv_cache_dtype": "fp8",
        }
        reported = made("0.26.0", gpu(1), **asked, compilation_config={"level": 3})
        assert asked.items() <= reported.options.items()
        assert reported.device == "cuda" and list(reported.left_out) == ["compilation_config"]
        on_cpu = made("0.26.0", **asked)
        assert not (asked.keys() - {"block_size", "dtype"}) & on_cpu.options.keys()
        assert on_cpu.options["dtype"] == "float32"

    def test_blocks_are_as_small_as_the_kernels_have_them(self) -> None:
        assert "block_size" not in made("0.26.0", gpu(1)).options

    def test_a_device_without_room_is_left_alone(self) -> None:
        with pytest.raises(NotApplicable, match=r"GPU 0 has 4.5 GiB free, an engine of the probes takes 5.0"):
            made("0.26.0", gpu(75.5))
        assert made("0.26.0", gpu(74.5)).options["gpu_memory_utilization"] == 0.05

    @pytest.mark.parametrize(
        ("version", "share"), [("0.8.5", 0.55), ("0.9.0", 0.55), ("0.9.1", 0.05), ("0.26.0", 0.05)]
    )
    def test_a_release_that_counts_what_others_hold_gets_that_on_top(self, version: str, share: float) -> None:
        assert made(version, gpu(40)).options["gpu_memory_utilization"] == share


def test_compressed_attention_is_plain_attention_on_the_cpu_alone() -> None:
    def environ(*devices: Gpu, **config: Any) -> dict[str, str]:
        gpus = Gpus(vendor="nvidia" if devices else "none", devices=devices)
        model = ModelFiles(path="model", config=config)
        asked = Request(devices=tuple(device.index for device in devices) or None)
        return dict(basis(Case(packages=packages(vllm="0.32.0"), gpus=gpus, model=model), asked).environ)

    yarn = {"rope_type": "yarn", "factor": 40.0}
    for config in ({"rope_parameters": yarn}, {"rope_scaling": {"type": "yarn", "factor": 40.0}}):
        assert environ(kv_lora_rank=512, **config)["VLLM_MLA_DISABLE"] == "1"
    # Positions that are not scaled go through a wrong kernel either way, chosen ones have no plain form, and a GPU's
    # kernels are what is to be looked at.
    left: tuple[dict[str, Any], ...] = (
        {"kv_lora_rank": 512},
        {"kv_lora_rank": 512, "index_topk": 2048, "rope_scaling": yarn},
        {},
    )
    assert all("VLLM_MLA_DISABLE" not in environ(**config) for config in left)
    assert "VLLM_MLA_DISABLE" not in environ(gpu(0), kv_lora_rank=512, rope_scaling=yarn)
