"""RLD206: the device's memory."""

from __future__ import annotations

import pytest
from rldoctor_checks.rollout.memory_overcommitted import check

from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, OUT_OF_MEMORY, ranked


def test_the_allocators_numbers_and_the_stage() -> None:
    found = finding(check, ranked(3, OUT_OF_MEMORY))
    assert found.message == (
        "the device is out of memory during update: 13.91 GiB asked for, 5.06 GiB of 79.11 GiB free on GPU 3 (rank 3)"
    )


@pytest.mark.parametrize(
    "error",
    [
        # https://github.com/vllm-project/vllm/pull/12981
        "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:56",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "torch.distributed.DistBackendError: NCCL error: unhandled cuda error, Cuda failure 2 'out of memory'",
    ],
)
def test_other_allocators(error: str) -> None:
    kind, message = error.split(": ", 1)
    text = raised(kind, message, "/x/site-packages/vllm/device_allocator/cumem.py wake_up")
    assert "during weight sync" in finding(check, text).message


def test_an_engine_that_starts_beside_something_else_gets_the_share_that_is_free() -> None:
    # https://github.com/vllm-project/vllm/issues/25837
    text = (
        "Free memory on device (32.2/40.0 GiB) on startup is less than desired GPU memory utilization (0.9, 36.0 GiB)."
    )
    found = finding(check, raised("ValueError", text + " Decrease GPU memory utilization or reduce GPU memory used."))
    assert (found.fixes[0].edits[0].option, found.fixes[0].edits[0].value) == ("engine.gpu_memory_utilization", 0.77)


def test_memory_that_moved_while_the_engine_measured() -> None:
    # https://github.com/vllm-project/vllm/issues/56830
    text = "Error in memory profiling. Initial free memory 60.1 GiB, current free memory 61.2 GiB."
    assert "changed its memory" in finding(check, raised("AssertionError", text)).message


def test_a_batch_that_was_tried_again_smaller() -> None:
    text = "INFO 11-20 21:24:36 [x.py:1] CUDA out of memory, trying again with batch size 8\n"
    assert findings(check, text + HEALTHY) == []


@pytest.mark.parametrize(
    ("frame", "option"),
    [
        ("trl/trainer/grpo_trainer.py training_step", "batch.per_device"),
        ("verl/workers/fsdp_workers.py update_actor", "batch.per_device"),
        ("verl/workers/fsdp_workers.py compute_log_prob", "batch.logprob_per_device"),
        # It has one size for both.
        ("trl/trainer/grpo_trainer.py _get_per_token_logps", "batch.per_device"),
    ],
)
def test_the_micro_batch_of_the_stage_is_named_as_far_as_the_framework_has_one(frame: str, option: str) -> None:
    text = raised(
        "torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 13.91 GiB.", f"/x/site-packages/{frame}"
    )
    assert [edit.option for edit in finding(check, text).fixes[0].edits] == [option]


@pytest.mark.parametrize(
    "said",
    [
        # https://github.com/erfanzar/EasyDeL/issues/78
        "XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 21.90G of 7.48G hbm.",
        "Attempting to reserve 10.51G at the bottom of memory. That was not possible. There are 8.97G free.",
        "Out of memory while trying to allocate 17179869184 bytes.",
    ],
)
def test_a_tpu_without_memory(said: str) -> None:
    found = finding(check, raised("jaxlib.xla_extension.XlaRuntimeError", f"RESOURCE_EXHAUSTED: {said}"))
    assert found.message.startswith("the accelerator is out of memory")


def test_a_service_that_has_enough_of_requests() -> None:
    refused = raised("google.api_core.exceptions.ResourceExhausted", "429 RESOURCE_EXHAUSTED: Quota exceeded")
    assert findings(check, refused) == []
