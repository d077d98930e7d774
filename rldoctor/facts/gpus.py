"""The accelerators of this host and their vendor; a machine without any is as normal as one with eight."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rldoctor.case import Gpus, Unknown
from rldoctor.catalogue.probe import Request
from rldoctor.facts.deadline import within
from rldoctor.facts.environment import of

TIME_LIMIT = 20.0

_ROOT = Path("/")
_PCI_NVIDIA = "0x10de"
_PCI_DISPLAY = "0x03"  # class: display controller, which compute cards are too
# Distributions, containers (also of GKE), WSL, NixOS.
_DRIVER_DIRECTORIES = (
    "usr/lib/x86_64-linux-gnu usr/lib/aarch64-linux-gnu usr/lib64 usr/lib lib/x86_64-linux-gnu lib64 "
    "usr/local/nvidia/lib64 usr/lib/wsl/lib run/opengl-driver/lib"
)
_NVML_LIBRARY = "libnvidia-ml.so.1"


def collect(request: Request) -> Gpus | Unknown:
    """The devices, also those that ``CUDA_VISIBLE_DEVICES`` hides; Unknown where the driver does not answer in time."""
    return read(of(request))


def read(environ: Mapping[str, str], root: Path = _ROOT) -> Gpus | Unknown:
    """The devices of the host whose /dev, /sys and libraries lie under ``root``."""
    silent = None
    if _nvml_may_answer(environ, root):
        import pynvml  # 15 ms, so only where there may be something to see

        from rldoctor.facts import nvml

        try:
            reported = within(TIME_LIMIT, nvml.read)
        except TimeoutError as error:
            return Unknown(reason=f"the NVIDIA driver gave {error}", how="nvidia-smi, and the kernel's log (dmesg)")
        except pynvml.NVMLError as error:
            silent = Gpus(vendor="nvidia", error=f"NVML: {error}")
        else:
            if reported.devices:
                return reported
            silent = replace(reported, error="the driver lists no device")
    return _without_nvml(root, silent)


def _without_nvml(root: Path, silent: Gpus | None) -> Gpus:
    """What the file system shows where NVML shows nothing."""
    if (root / "dev/nvidiactl").exists() or _has_nvidia_hardware(root):
        return silent or Gpus(vendor="nvidia", error="/dev/nvidiactl is missing: no driver is loaded here")
    if _has_amd(root):
        return Gpus(vendor="amd")
    if any(re.fullmatch(r"davinci\d+", device.name) for device in _entries(root / "dev")):
        return Gpus(vendor="ascend")
    return Gpus(vendor="none")


def _nvml_may_answer(environ: Mapping[str, str], root: Path) -> bool:
    """Whether asking NVML is worth its import. The library alone is enough: the device files may be made only when it
    is first used."""
    if (root / "dev/nvidiactl").exists():
        return True
    added = [Path(entry) for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    usual = [root / directory for directory in _DRIVER_DIRECTORIES.split()]
    return any((directory / _NVML_LIBRARY).exists() for directory in (*added, *usual))


def _has_nvidia_hardware(root: Path) -> bool:
    """Whether a display or compute card of NVIDIA is on the PCI bus, driver or not."""
    for device in _entries(root / "sys/bus/pci/devices"):
        if _text(device / "vendor") == _PCI_NVIDIA and _text(device / "class").startswith(_PCI_DISPLAY):
            return True
    return False


def _has_amd(root: Path) -> bool:
    """Whether ROCm's kernel driver is open to us and has a node that is a GPU, which CPUs' nodes are not."""
    if not (root / "dev/kfd").exists():
        return False
    nodes = _entries(root / "sys/class/kfd/kfd/topology/nodes")
    return any(_text(node / "gpu_id") not in ("", "0") for node in nodes)


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
