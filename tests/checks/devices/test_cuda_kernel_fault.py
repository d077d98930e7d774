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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: 10de:26b5) installed in "
            "this system has\n               NVRM: fallen off the bus and is not responding to commands.\n",
            "a GPU failed",
        ),
        (
            "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n",
            "a GPU failed: 0000:03:00.0 does not answer (Unknown Error)",
        ),
        (
            "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /pytorch/a.cpp:9\n",
            "a GPU failed",
        ),
        ("kernel: NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus.\n", "a GPU failed: Xid 79 on 0000:44:00"),
    ],
)
def test_a_device_that_is_gone(text: str, says: str) -> None:
    assert finding(check, text).message == says


def test_a_count_of_errors_that_is_none_is_no_fault() -> None:
    assert findings(check, "node health: uncorrectable ECC error encountered: 0\n") == []


def test_a_corrected_error_of_the_bus_is_no_fault() -> None:
    text = (
        "[  +0.000316] pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0\n"
        "[  +0.000005] pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer\n"
    )
    assert findings(check, text) == []


DEEPEP = (
    "DeepEP dispatch NVL receiver timeout, channel: 0, RDMA: 0, nvl: 7, src RDMA: 1, src nvl: 1, start: 0, end: 0\n"
)


def test_a_kernel_that_gave_up_waiting_for_a_rank_is_no_fault() -> None:
    # https://github.com/deepseek-ai/DeepEP/pull/181
    fault = raised("RuntimeError", "CUDA error: unspecified launch failure")
    assert "unspecified launch failure" in finding(check, fault).message
    (waited,) = findings(check, DEEPEP * 2 + fault)
    assert "waited for another rank" in waited.message and waited.fixes[0].commands[-1] == "rldoctor triage LOGS"


def test_an_operator_of_an_ascend_device() -> None:
    # https://github.com/vllm-project/vllm-ascend/issues/5695
    text = raised("RuntimeError", "call aclnnCast failed, detail:EZ9999: Inner Error!")
    assert finding(check, text).message.startswith("a kernel failed on an Ascend device")


RECORDS = (
    "48, pid=21012, name=VLLM::Worker_TP2, Double Bit ECC error",
    "63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate",
    "94, pid=21012, name=VLLM::Worker_TP2, Contained: SM (0x1). RST: No, D-RST: No",
    "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
)


@pytest.mark.parametrize(
    "head", ["[Sep 5 03:51] ", "[Sat Sep  5 03:51:10 2026] ", "[ 1843.308145] ", "n7 kernel: ", ""]
)
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_what_all_lines_of_the_kernels_ring_begin_with_is_no_prefix(head: str, count: int) -> None:
    text = "".join(f"{head}NVRM: Xid (PCI:0000:9c:00): {record}\n" for record in (RECORDS * 2)[:count])
    assert finding(check, text).message == "a GPU failed: Xid 48 on 0000:9c:00"


def test_an_assertion_that_a_pager_cut_off() -> None:
    # https://github.com/StarsfieldAI/R1-V/issues/10
    where = "../aten/src/ATen/native/cuda/IndexKernel.cu:93: operator(): block: [0,0,0], thread: [0,0,0]"
    text = f'{where} Assertion `-sizes[i] <= index && index < size$\n[i] && "index out of bounds"` failed.\n'
    assert triage_text(text, [check]).findings[0].message.endswith("-sizes[i] <= index && index < size")


def test_the_drivers_report_says_more_than_the_error_that_it_brings() -> None:
    text = (
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    train()\n'
        "RuntimeError: CUDA error: unspecified launch failure\n"
        "Nov  3 02:31:19 dgx-021 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=2, GPU has fallen off the bus.\n"
    )
    assert finding(check, text).message == "a GPU failed: Xid 79 on 0000:9b:00"
