"""RLD301: tensors that are not where their worker is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rldoctor_checks.devices.device_mismatch import check

from rldoctor.api import Case, Outcome
from rldoctor.judge import judge_one
from tests.checks import launches
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised
from tests.observations import link, rollout_case

PLACED = {"count": {"cuda:0": 17}, "elsewhere": {}}


def placed(**elsewhere: dict[str, str]) -> dict[str, Any]:
    kinds = ("parameters", "buffers", "kv_cache")
    return {"expected": "cuda:0", **{kind: {**PLACED, "elsewhere": elsewhere.get(kind, {})} for kind in kinds}}


@pytest.mark.parametrize(
    ("kind", "device"),
    [
        ("parameters", "cuda:1"),
        ("parameters", "cpu"),
        ("parameters", "meta"),
        ("kv_cache", "cpu"),
        ("buffers", "cuda:1"),
    ],
)
def test_a_tensor_elsewhere(kind: str, device: str) -> None:
    result = judge_one(check, rollout_case(devices=placed(**{kind: {"model.norm.weight": device}})))
    (finding,) = result.findings
    assert f"are not on cuda:0: {device}" in finding.message
    assert finding.evidence[0].text == f"model.norm.weight is on {device}, the worker on cuda:0"


def test_host_memory_that_has_a_purpose_is_no_finding() -> None:
    engine = {"max_model_len": 2048, "cpu_offload_gb": 4.0}
    offloaded = rollout_case(devices=placed(parameters={"model.layers.0.mlp": "cpu"}), engine=engine)
    buffer = rollout_case(devices=placed(buffers={"model.rotary": "cpu"}))
    assert judge_one(check, offloaded).outcome is Outcome.PASS
    assert judge_one(check, buffer).outcome is Outcome.PASS


@pytest.mark.parametrize(
    "message",
    [
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!",
        "Tensor.item() cannot be called on meta tensors",
        "Cannot copy out of meta tensor; no data!",
        "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one on: cuda:1",
    ],
)
def test_an_operation_that_mixes_devices_comes_with_its_line(message: str) -> None:
    error = link("RuntimeError", message, "vllm/v1/worker/gpu_worker.py:10", "torch/nn/functional.py:2542")
    result = judge_one(check, rollout_case("raised", exceptions=[error], completions=None))
    (finding,) = result.findings
    assert finding.evidence[0].text.endswith(message)
    assert finding.evidence[1].line == 2542


def test_another_failure_is_left_to_others() -> None:
    error = link("RuntimeError", "CUDA out of memory", "torch/x.py")
    result = judge_one(check, rollout_case("raised", exceptions=[error], devices=None))
    assert result.findings == ()


def test_a_rollout_that_was_cut_off_is_no_pass() -> None:
    result = judge_one(check, rollout_case("timed-out", devices=None, stage="boot"))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "the rollout timed-out before it came to an end (--time-limit SECONDS)" in str(result.reason)
    raised = judge_one(check, rollout_case("raised", exceptions=[link("KeyError", "'x'")], stage="generate"))
    assert "which raised another error at stage generate" in str(raised.reason)


def test_an_engine_that_cannot_be_seen_is_unknown() -> None:
    unseen = {"expected": None, "kv_cache": PLACED}
    result = judge_one(check, rollout_case(devices=unseen))
    assert result.findings == ()
    assert "does not let its model be seen" in str(result.reason)


@pytest.mark.engine
def test_a_healthy_engine_passes_and_says_how_far(rollout: Callable[..., Case]) -> None:
    result = judge_one(check, rollout())
    assert result.outcome is Outcome.PASS
    assert "tensors of vLLM" in str(result.reason)


@pytest.mark.engine
@pytest.mark.parametrize("fault", ["idle_meta_parameter", "meta_parameter"])
def test_a_parameter_that_was_never_loaded(rollout: Callable[..., Case], fault: str) -> None:
    result = judge_one(check, rollout(fault))
    assert result.outcome is Outcome.FINDINGS
    assert "meta" in " ".join(evidence.text for evidence in result.findings[0].evidence)


def test_an_engine_beside_the_first_device() -> None:
    # https://github.com/huggingface/trl/pull/2766
    found = launches.finding(check, version="0.14.0", vllm="0.7.0", placement__engine_device="cuda:1")
    assert any("vllm>=0.7.2" in command for fix in found.fixes for command in fix.commands)
    assert launches.quiet(check, version="0.14.0", vllm="0.7.1", placement__engine_device="cuda:1")
    assert launches.quiet(check, version="0.14.0", vllm="0.7.0", placement__engine_device="cuda:0")
    assert launches.quiet(check, "ms-swift", version="3.2.0", vllm="0.7.0", placement__engine_device="cuda:1")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!",
            "cuda:1 and cuda:0",
        ),
        (
            "Expected all tensors to be on the same device, but got mat2 is on cpu, different from other tensors on "
            "cuda:0 (when checking argument in method wrapper_CUDA_mm)",
            "cpu and cuda:0",
        ),
        ("Expects tensor to be on the compute device cuda:0, was on cpu", "cpu instead of cuda:0"),
        ("Tensor.item() cannot be called on meta tensors", "never loaded"),
    ],
)
def test_what_torch_says_of_it(message: str, said: str) -> None:
    assert said in logged(check, raised("RuntimeError", message)).message


def test_other_errors_of_devices() -> None:
    assert findings(check, raised("RuntimeError", "CUDA error: invalid device ordinal")) == []
