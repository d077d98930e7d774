"""What NVIDIA's management library says about the devices, whatever ``CUDA_VISIBLE_DEVICES`` hides from CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pynvml

from rldoctor.case import Gpu, GpuProcess, Gpus, MigInstance
from rldoctor.facts.host import memory

# nvmlGpuTopologyLevel_t, in the words of `nvidia-smi topo -m`.
_TOPOLOGY = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "internal",
    pynvml.NVML_TOPOLOGY_SINGLE: "pix",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "pxb",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "phb",
    pynvml.NVML_TOPOLOGY_NODE: "node",
    pynvml.NVML_TOPOLOGY_SYSTEM: "sys",
}
# A driver lacks a function, a device a property, a container the permission: each costs one fact, not all.
_REFUSALS = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)


def read() -> Gpus:
    """All devices of this machine. Raises :class:`pynvml.NVMLError` where the driver does not answer."""
    pynvml.nvmlInit()
    try:
        handles = _handles()
        return Gpus(
            vendor="nvidia",
            devices=tuple(_device(index, handle) for index, handle in handles.items()),
            driver=_ask(pynvml.nvmlSystemGetDriverVersion),
            cuda=_cuda(),
            links={f"{a}-{b}": link for a, b in combinations(handles, 2) if (link := _link(handles[a], handles[b]))},
        )
    finally:
        _ask(pynvml.nvmlShutdown)


def _ask(function: Callable[..., Any], *arguments: object) -> Any:
    try:
        return function(*arguments)
    except _REFUSALS:
        return None


def _handles() -> dict[int, Any]:
    """Index -> handle, without devices that fell off the bus."""
    found = {index: _ask(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(pynvml.nvmlDeviceGetCount())}
    return {index: handle for index, handle in found.items() if handle is not None}


def _cuda() -> str | None:
    # The second form asks libcuda itself, which a compatibility package may have replaced by a newer one.
    number = _ask(pynvml.nvmlSystemGetCudaDriverVersion_v2) or _ask(pynvml.nvmlSystemGetCudaDriverVersion)
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _device(index: int, handle: Any) -> Gpu:
    reported = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    modes = _ask(pynvml.nvmlDeviceGetMigMode, handle)  # current and pending
    mig = bool(modes) and modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    instances = list(_mig_handles(handle)) if mig else []
    processes = [p for owner in (handle, *instances) for p in _processes(owner)]
    return Gpu(
        index=index,
        name=_ask(pynvml.nvmlDeviceGetName, handle) or "unknown",
        # A chip that shares its memory with the host (GB10, Jetson) has none of its own to report:
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1073
        memory_total=reported.total if reported else memory()[0],
        memory_used=reported.used if reported else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        uuid=_ask(pynvml.nvmlDeviceGetUUID, handle),
        mig=mig,
        instances=tuple(_instance(instance) for instance in instances),
        processes=tuple({process.pid: process for process in processes}.values()),
        power_limit=limit // 1000 if (limit := _ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle)) else None,
        pcie_lanes=_ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        ecc=bool(corrects[0]) if (corrects := _ask(pynvml.nvmlDeviceGetEccMode, handle)) else None,
        remapping=_remapping(handle),
    )


def _remapping(handle: Any) -> str | None:
    """What is amiss with the rows of memory that replace faulty ones: corrected, uncorrected, pending, failed."""
    _, _, pending, failed = _ask(pynvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    return "failed" if failed else "pending" if pending else None


def _mig_handles(handle: Any) -> Iterator[Any]:
    for index in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        instance = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if instance is not None:  # a slot without an instance
            yield instance


def _instance(handle: Any) -> MigInstance:
    reported = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return MigInstance(uuid=_ask(pynvml.nvmlDeviceGetUUID, handle), memory_total=reported.total if reported else None)


def _processes(handle: Any) -> Iterator[GpuProcess]:
    """Who computes or draws there. A process of another container has a number that means nothing here: no name."""
    newest = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    # Drivers before 510 know only the second form.
    computing = newest if newest is not None else _ask(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
    drawing = _ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses, handle)
    for process in [*(drawing or []), *(computing or [])]:
        yield GpuProcess(pid=process.pid, name=_name(process.pid), memory=process.usedGpuMemory)


def _name(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return None


def _link(one: Any, other: Any) -> str | None:
    status = _ask(pynvml.nvmlDeviceGetP2PStatus, one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    if status == pynvml.NVML_P2P_STATUS_OK:
        return "nvlink"
    return _TOPOLOGY.get(_ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, other))
