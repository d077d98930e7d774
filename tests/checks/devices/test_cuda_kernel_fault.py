"""RLD305: faults inside kernels."""

from __future__ import annotations

import pytest
from rldoctor_checks.devices.cuda_kernel_fault import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised

ENGINE = "/opt/verl/workers/rollout/vllm_rollout/vllm_rollout.py generate_sequences"


def test_an_illegal_access_after_the_engines_work() -> None:
    # https://github.com/Agent-RL/ReCall/issues/54
    found = finding(check, raised("RuntimeError", "CUDA error: an illegal memory access was encountered", ENGINE))
    assert "in or after the rollout engine's work" in found.message
    options = [edit.option for fix in found.fixes for edit in fix.edits]
    assert options[0] == "env.CUDA_LAUNCH_BLOCKING" and "engine.enforce_eager" in options


def test_an_illegal_access_of_the_trainer() -> None:
    found = finding(check, raised("torch.AcceleratorError", "CUDA error: an illegal memory access was encountered"))
    assert [edit.option for fix in found.fixes for edit in fix.edits] == ["env.CUDA_LAUNCH_BLOCKING"]


def test_an_assertion_names_itself() -> None:
    text = (
        "../aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [0,0,0], thread: [0,0,0] "
        "Assertion `-sizes[i] <= index && index < sizes[i]` failed.\n"
    )
    found = finding(check, text + raised("RuntimeError", "CUDA error: device-side assert triggered"))
    assert "index < sizes[i]" in found.message


@pytest.mark.parametrize("message", ["CUDA out of memory.", "CUDA error: invalid device ordinal"])
def test_other_cuda_errors(message: str) -> None:
    assert findings(check, raised("RuntimeError", message)) == []


def test_probabilities_that_are_no_numbers_are_no_fault_of_the_kernel() -> None:
    # https://github.com/MakazhanAlpamys/Soup/issues/342
    text = (
        "TensorCompare.cu:112: _assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `probability "
        "tensor contains either `inf`, `nan` or element < 0` failed.\n"
    ) + raised("RuntimeError", "CUDA error: device-side assert triggered")
    assert findings(check, text) == []
    assert triage_text(text).findings[0].code == "RLD404"


def test_an_ascend_operator_that_fails() -> None:
    text = (
        "The Inner error is reported as above. The process exits for this inner error, and the current working "
        "operator name is MatMul.\n[ERROR] 2025-03-02-10:11:12 (PID:123, Device:0, RankID:0) ERR00100 PTA call acl api "
        "failed."
    )
    place = "/opt/venv/lib/python3.11/site-packages/torch_npu/npu/utils.py synchronize"
    assert "a kernel failed on an Ascend device" in finding(check, raised("RuntimeError", text, place)).message
