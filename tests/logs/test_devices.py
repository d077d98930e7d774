"""The GPUs and the driver that a log tells of are facts of its case."""

from __future__ import annotations

import pytest

from rldoctor.case import Case, Gpus
from rldoctor.logs.devices import devices
from rldoctor.logs.reading import read
from rldoctor.logs.runs import slices
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table
from rldoctor.logs.triage import judged_record, triage_text
from tests.loaded import REGISTRY

from .excerpts import HEALTHY, REWARD_RAISES


def told(text: str) -> Gpus | None:
    return devices([slices(read(TextSource("run.log", text.encode()), Table([])))[-1]])


# Driver 560: "Driver Version"; 610: "KMD Version", "CUDA UMD Version".
SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA B200                    On  |   00000000:63:00.0 Off |                    0 |
| N/A   26C    P0            139W / 1000W |       0MiB / 183359MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA B200                    On  |   00000000:68:00.0 Off |                    0 |
| N/A   30C    P0            142W / 1000W |       0MiB / 183359MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
LIST = "".join(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n}f3a)\n" for n in range(8))
COLLECT_ENV = (
    "GPU models and configuration: GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA A100-SXM4-80GB\n\n"
    "Nvidia driver version: 525.116.04\n"
)
UNSLOTH = "   \\\\   /|    NVIDIA H20. Num GPUs = 8. Max memory: 95.005 GB. Platform: Linux.\n"
DIAGNOSE = "GPU Count\t: 2\nGPU 1\tType    : NVIDIA H100 80GB HBM3\nGPU 2\tType    : NVIDIA H100 80GB HBM3\n"


@pytest.mark.parametrize(
    ("text", "count", "name", "gib", "capability", "driver", "cuda"),
    [
        (SMI, 2, "NVIDIA B200", 179, "10.0", "610.43.02", "13.3"),
        (LIST, 8, "NVIDIA H100 80GB HBM3", 80, "9.0", None, None),
        (COLLECT_ENV, 2, "NVIDIA A100-SXM4-80GB", 80, "8.0", "525.116.04", None),
        (UNSLOTH, 8, "NVIDIA H20", 95, "9.0", None, None),
        (DIAGNOSE, 2, "NVIDIA H100 80GB HBM3", 80, "9.0", None, None),
    ],
)
def test_what_programs_print_of_devices(
    text: str, count: int, name: str, gib: int, capability: str, driver: str | None, cuda: str | None
) -> None:
    found = told(f"[2026-03-02 10:00:01] start\n{text}{HEALTHY}")
    assert found is not None and (found.driver, found.cuda) == (driver, cuda)
    assert {(d.name, round(d.memory_total / 2**30), d.compute_capability) for d in found.devices} == {
        (name, gib, capability)
    }
    assert [d.index for d in found.devices] == list(range(count))


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("n7:81:81 [0] NCCL INFO cudaDriverVersion 12020", "12.2"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update", "12.4"),
    ],
)
def test_the_cuda_that_a_driver_serves(line: str, cuda: str) -> None:
    found = told(f"{line}\n")
    assert found is not None and found.cuda == cuda and not found.devices


def test_what_differs_or_is_not_told_is_left_out() -> None:
    mixed = told(LIST + "GPU 8: NVIDIA A100-SXM4-80GB (UUID: GPU-8)\nNvidia driver version: 560.35.03\n")
    assert mixed is not None and not mixed.devices and mixed.driver == "560.35.03"
    assert (
        told("(AReaL) 20251231-02:44:48.700 PlatformInit INFO: Detected CUDA device: NVIDIA H100 80GB HBM3\n") is None
    )
    assert told("GPU 0: a dog and a cat\nGPU 3 has a total capacity of 79.11 GiB of which 1 is free.\n") is None
    assert told(HEALTHY) is None


def test_what_was_collected_goes_before_what_a_log_says() -> None:
    table, checks = Table(REGISTRY.checks.values()), list(REGISTRY.checks.values())
    record = read(TextSource("run.log", (LIST + HEALTHY).encode()), table)
    collected = Gpus(vendor="none")
    assert judged_record(record, table, checks, Case(gpus=collected))[1].gpus == collected
    known = judged_record(record, table, checks, Case())[1].gpus
    assert known is not None and len(known.devices) == 8


DRIVER = "Nvidia driver version: 525.116.04\nn7:81:81 [0] NCCL INFO cudaDriverVersion 12000\n"
UNEXPLAINED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py", line 400, in _lazy_init\n'
    "    torch._C._cuda_init()\nRuntimeError: Unexpected failure of an unknown kind\n"
)


def test_a_driver_too_old_for_the_logs_torch_is_told_where_nothing_else_explains_a_failure() -> None:
    torch = "PyTorch version: 2.9.0+cu130\n"
    assert "RLD106" in [f.code for f in triage_text(torch + DRIVER + UNEXPLAINED).findings]
    assert "RLD106" not in [f.code for f in triage_text(torch + DRIVER + REWARD_RAISES).findings]
    assert triage_text(torch + DRIVER + HEALTHY).findings == ()
    assert "RLD106" not in [
        f.code for f in triage_text("PyTorch version: 2.8.0+cu128\n" + DRIVER + UNEXPLAINED).findings
    ]


def test_what_a_log_tells_of_its_machine_has_its_line() -> None:
    text = f"[2026-03-02 10:00:01] start\n{LIST}Nvidia driver version: 535.104.05\ndist_world_size=16\n{REWARD_RAISES}"
    found = triage_text(text)
    assert found.incident is not None
    facts = {fact.text: fact.line for fact in found.incident.facts}
    assert facts["8 x NVIDIA H100 80GB HBM3"] == 2 and facts["driver 535.104.05"] == 10
    assert facts["16 processes"] == 11
    assert {fact.source for fact in found.incident.facts} == {"log"}


def test_what_is_known_of_the_machine_is_not_what_a_log_told() -> None:
    known = Case(gpus=Gpus(vendor="nvidia", driver="550.54"))
    found = triage_text(f"Nvidia driver version: 535.104.05\n{REWARD_RAISES}", case=known)
    assert found.incident is not None and not [f for f in found.incident.facts if "driver" in f.text]
