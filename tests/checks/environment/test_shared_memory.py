"""RLD113: /dev/shm is too small, or full."""

from __future__ import annotations

from pathlib import Path

import pytest
from rldoctor_checks.environment.shared_memory import check

from rldoctor.api import Case, Outcome
from tests.cases import GIB, commands, gpus, host, judged, severities
from tests.checks.launches import LaunchFile
from tests.logs.asking import finding, findings, raised

MIB = 1 << 20


@pytest.mark.parametrize(
    ("total", "devices", "severity"),
    [(64 * MIB, 8, "error"), (256 * MIB, 2, "warning"), (64 * MIB, 1, "note"), (64 * MIB, 0, "note")],
)
def test_too_small_for_the_ranks(total: int, devices: int, severity: str) -> None:
    case = Case(host=host(shm_total=total, shm_free=total, container="docker"), gpus=gpus(count=devices))
    result = judged(check, case)
    assert severities(result) == [severity]
    assert commands(result) == ["docker run --shm-size=16g ..."]


@pytest.mark.parametrize("total", [GIB, 256 * GIB])
def test_enough_stays_quiet(total: int) -> None:
    result = judged(check, Case(host=host(shm_total=total, shm_free=total), gpus=gpus(count=8)))
    assert result.outcome is Outcome.PASS
    assert "8 GPUs" in str(result.reason)


@pytest.mark.parametrize(
    ("start", "ranks", "fires"),
    [
        ("docker run --rm --gpus all image", 8, True),
        ("podman run --gpus all -v /data:/data image", 2, True),
        ("docker run --rm --gpus all image", 1, False),
        ("docker run --rm --gpus all --shm-size=64g image", 8, False),
        ("docker run --gpus all --shm-size 64g image", 8, False),
        ("docker run --gpus all --ipc=host image", 8, False),
        ("docker run --gpus all -v /dev/shm:/dev/shm image", 8, False),
        ("docker run $OPTIONS --gpus all image", 8, False),
        ("docker exec trainer", 8, False),
        ("apptainer exec --nv image.sif", 8, False),
        ("", 8, False),
    ],
)
def test_a_launch_in_a_container_with_the_default(start: str, ranks: int, fires: bool, tmp_path: Path) -> None:
    run = LaunchFile(tmp_path, f"{start} vllm serve org/m --tensor-parallel-size {ranks}\n", {"vllm": "0.10.2"})
    assert [("64 MiB of /dev/shm" in found.message) for found in run.findings(check)] == [True] * fires


def test_leftovers_fill_it() -> None:
    result = judged(check, Case(host=host(shm_total=16 * GIB, shm_free=10 * MIB), gpus=gpus()))
    assert severities(result) == ["warning"]


def test_an_unknown_host_is_not_checked() -> None:
    assert judged(check, Case()).outcome is Outcome.NOT_CHECKED
    assert judged(check, Case(host=host(shm_total=None))).outcome is Outcome.NOT_APPLICABLE


def test_a_log_of_a_data_loader_without_shared_memory() -> None:
    message = "unable to allocate shared memory(shm) for file </torch_6176_3796823953_0>: No space left on device (28)"
    found = finding(check, raised("RuntimeError", message))
    assert "the data loader's workers" in found.message
    assert "shm-size" in found.fixes[0].title


def test_a_log_of_nccl_without_shared_memory() -> None:
    """https://github.com/vllm-project/vllm/issues/1710"""
    said = "NCCL WARN Error: failed to extend /dev/shm/nccl-ku2C2w to 9637892 bytes"
    warning = f"node1:120:240 [1] misc/shmutils.cc:72 {said}\n"
    (found,) = findings(
        check, warning + raised("torch.distributed.DistBackendError", "NCCL error: unhandled system error")
    )
    assert "NCCL got no shared memory (9 MiB asked for)" in found.message


def test_a_full_disk_is_another_code() -> None:
    assert findings(check, raised("OSError", "[Errno 28] No space left on device: '/tmp/x'")) == []
