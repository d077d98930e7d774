"""What NVML says, on real devices where there are any, and on kinds of device that are rare.

The rare ones (MIG, memory shared with the host, old drivers, eight devices) replace single functions of pynvml."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from rldoctor.case import MigInstance
from rldoctor.facts import nvml

GIB = 1024**3
Answers = dict[str, Callable[..., object]]


def refuse(*_: object) -> object:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def mismatch(*_: object) -> object:
    raise pynvml.NVMLLibraryMismatchError("no such function")


HEALTHY: Answers = {
    "nvmlInit": lambda: None,
    "nvmlShutdown": lambda: None,
    "nvmlDeviceGetCount": lambda: 1,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlSystemGetDriverVersion": lambda: "570.86.15",
    "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
    "nvmlDeviceGetName": lambda handle: "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
    "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=80 * GIB, used=3 * GIB),
    "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
    "nvmlDeviceGetMigMode": refuse,
    "nvmlDeviceGetComputeRunningProcesses": lambda handle: [],
    "nvmlDeviceGetGraphicsRunningProcesses": lambda handle: [],
    "nvmlDeviceGetPowerManagementLimit": refuse,
    "nvmlDeviceGetCurrPcieLinkWidth": refuse,
    "nvmlDeviceGetEccMode": refuse,
    "nvmlDeviceGetRemappedRows": mismatch,
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    def replace(reported: Answers) -> None:
        for name, function in {**HEALTHY, **reported}.items():
            monkeypatch.setattr(pynvml, name, function)

    return replace


def test_one_ordinary_device(answers: Callable[[Answers], None]) -> None:
    answers({})
    found = nvml.read()
    assert (found.vendor, found.driver, found.cuda, found.links) == ("nvidia", "570.86.15", "12.8", {})
    (gpu,) = found.devices
    assert (gpu.name, gpu.memory_total, gpu.memory_used) == ("NVIDIA H100 80GB HBM3", 80 * GIB, 3 * GIB)
    assert (gpu.compute_capability, gpu.uuid, gpu.mig, gpu.instances) == ("9.0", "GPU-0", False, ())


def test_how_a_device_is_set_and_attached(answers: Callable[[Answers], None]) -> None:
    answers(
        {
            "nvmlDeviceGetPowerManagementLimit": lambda handle: 500_000,
            "nvmlDeviceGetCurrPcieLinkWidth": lambda handle: 8,
            "nvmlDeviceGetEccMode": lambda handle: [pynvml.NVML_FEATURE_DISABLED, pynvml.NVML_FEATURE_ENABLED],
            "nvmlDeviceGetRemappedRows": lambda handle: (3, 1, 1, 0),
        }
    )
    (gpu,) = nvml.read().devices
    assert (gpu.power_limit, gpu.pcie_lanes, gpu.ecc, gpu.remapping) == (500, 8, False, "pending")


def test_slices_of_a_device_are_what_processes_see(answers: Callable[[Answers], None]) -> None:
    def slot(handle: object, index: int) -> str:
        return f"mig{index}" if index < 2 else str(refuse())

    size = {0: 80 * GIB, "mig0": 40 * GIB, "mig1": 20 * GIB}
    answers(
        {
            "nvmlDeviceGetMigMode": lambda handle: (pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE),
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": slot,
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=size[handle], used=0),
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: (
                [SimpleNamespace(pid=4_000_000, usedGpuMemory=GIB)] if handle == "mig1" else []
            ),
        }
    )
    (gpu,) = nvml.read().devices
    assert gpu.mig
    assert gpu.instances == (
        MigInstance(uuid="GPU-mig0", memory_total=40 * GIB),
        MigInstance(uuid="GPU-mig1", memory_total=20 * GIB),
    )
    assert [(p.pid, p.memory) for p in gpu.processes] == [(4_000_000, GIB)]


def test_a_chip_that_shares_the_hosts_memory(answers: Callable[[Answers], None]) -> None:
    answers({"nvmlDeviceGetMemoryInfo": refuse, "nvmlDeviceGetName": lambda handle: "NVIDIA GB10"})
    (gpu,) = nvml.read().devices
    assert gpu.memory_total == psutil.virtual_memory().total
    assert gpu.memory_used is None


def test_processes_have_names_where_they_are_visible(answers: Callable[[Answers], None]) -> None:
    ours = SimpleNamespace(pid=psutil.Process().pid, usedGpuMemory=None)
    strange = SimpleNamespace(pid=2**22 + 1, usedGpuMemory=5 * GIB)
    answers(
        {
            "nvmlDeviceGetComputeRunningProcesses": mismatch,
            "nvmlDeviceGetComputeRunningProcesses_v2": lambda handle: [ours, strange],
            "nvmlDeviceGetGraphicsRunningProcesses": refuse,
        }
    )
    (gpu,) = nvml.read().devices
    name = Path("/proc/self/comm").read_text().strip()
    assert [(p.pid, p.name, p.memory) for p in gpu.processes] == [(ours.pid, name, None), (strange.pid, None, 5 * GIB)]


def test_how_devices_reach_each_other(answers: Callable[[Answers], None]) -> None:
    def common(one: int, other: int) -> object:
        return {1: pynvml.NVML_TOPOLOGY_SYSTEM, 2: pynvml.NVML_TOPOLOGY_SINGLE}[other - one]

    answers(
        {
            "nvmlDeviceGetCount": lambda: 3,
            "nvmlDeviceGetP2PStatus": lambda a, b, what: (
                pynvml.NVML_P2P_STATUS_OK if (a, b) == (0, 1) else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
            ),
            "nvmlDeviceGetTopologyCommonAncestor": common,
        }
    )
    assert nvml.read().links == {"0-1": "nvlink", "0-2": "pix", "1-2": "sys"}


def test_a_device_that_fell_off_the_bus_costs_only_itself(answers: Callable[[Answers], None]) -> None:
    answers(
        {
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index if index == 1 else refuse(),
            "nvmlSystemGetCudaDriverVersion_v2": refuse,
            "nvmlSystemGetCudaDriverVersion": lambda: 11040,
        }
    )
    found = nvml.read()
    assert [gpu.index for gpu in found.devices] == [1]
    assert found.cuda == "11.4"


def test_a_machine_without_a_driver_refuses() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a driver here")
    with pytest.raises(pynvml.NVMLError):
        nvml.read()


@pytest.mark.gpu
def test_real_devices() -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU here")
    found = nvml.read()
    assert found.vendor == "nvidia" and found.devices
    assert found.driver and found.cuda and float(found.cuda) >= 10
    for gpu in found.devices:
        assert gpu.memory_total > GIB
        assert gpu.memory_used is None or 0 <= gpu.memory_used <= gpu.memory_total
        assert gpu.compute_capability and float(gpu.compute_capability) >= 5
        assert gpu.uuid and gpu.uuid.startswith("GPU-")
    assert len(found.links) == len(found.devices) * (len(found.devices) - 1) // 2


@pytest.mark.gpu
def test_hiding_devices_from_cuda_does_not_hide_them_here(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU here")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert nvml.read().devices
