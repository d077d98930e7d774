"""Vendors of accelerators, and machines without any."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pynvml
import pytest

from rldoctor.case import Gpu, Gpus, Unknown
from rldoctor.facts import gpus, nvml
from rldoctor.facts.gpus import read


def pci(root: Path, vendor: str, kind: str) -> Path:
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    return root


def device_file(root: Path, *names: str) -> Path:
    (root / "dev").mkdir(exist_ok=True)
    for name in names:
        (root / "dev" / name).touch()
    return root


def kfd(root: Path, *gpu_ids: int) -> Path:
    for number, gpu_id in enumerate(gpu_ids):
        node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(f"{gpu_id}\n")
    return root


def test_no_accelerator_is_a_fact(tmp_path: Path) -> None:
    assert read({}, tmp_path) == Gpus(vendor="none")
    assert read({}, pci(tmp_path, "0x1234", "0x030000")) == Gpus(vendor="none")


def test_other_vendors_are_recognised(tmp_path: Path) -> None:
    assert read({}, kfd(device_file(tmp_path, "kfd"), 0, 51110)) == Gpus(vendor="amd")
    (tmp_path / "ascend").mkdir()
    assert read({}, device_file(tmp_path / "ascend", "davinci0", "davinci_manager")) == Gpus(vendor="ascend")


def test_a_driver_without_a_device_is_no_accelerator(tmp_path: Path) -> None:
    assert read({}, kfd(device_file(tmp_path, "kfd", "davinci_manager"), 0, 0)) == Gpus(vendor="none")


def test_amd_hardware_that_is_not_open_to_us_is_not_there(tmp_path: Path) -> None:
    assert read({}, kfd(tmp_path, 51110)) == Gpus(vendor="none")


def test_an_nvidia_card_without_a_driver_says_so(tmp_path: Path) -> None:
    found = read({}, pci(tmp_path, "0x10de", "0x030200"))
    assert found == Gpus(vendor="nvidia", error="/dev/nvidiactl is missing: no driver is loaded here")


def test_an_nvidia_network_card_is_no_gpu(tmp_path: Path) -> None:
    assert read({}, pci(tmp_path, "0x10de", "0x020000")) == Gpus(vendor="none")


def refuse(code: int) -> Gpus:
    raise pynvml.NVMLError(code)


def test_a_driver_that_refuses_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "read", lambda: refuse(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH))
    found = read({}, device_file(tmp_path, "nvidiactl"))
    assert isinstance(found, Gpus)
    assert (found.vendor, found.devices) == ("nvidia", ())
    assert found.error is not None and "version mismatch" in found.error


def test_a_library_without_hardware_is_a_cuda_image_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "read", lambda: refuse(pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    (tmp_path / "libnvidia-ml.so.1").touch()
    assert read({"LD_LIBRARY_PATH": f":{tmp_path}"}, tmp_path) == Gpus(vendor="none")


def test_a_driver_without_devices_keeps_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "read", lambda: Gpus(vendor="nvidia", driver="570.1", cuda="12.8"))
    found = read({}, device_file(tmp_path, "nvidiactl"))
    assert found == Gpus(vendor="nvidia", driver="570.1", cuda="12.8", error="the driver lists no device")


def test_the_windows_subsystem_has_no_device_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Gpu(index=0, name="NVIDIA GeForce RTX 4090", memory_total=24 << 30)
    monkeypatch.setattr(nvml, "read", lambda: Gpus(vendor="nvidia", devices=(device,)))
    (tmp_path / "usr/lib/wsl/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/wsl/lib/libnvidia-ml.so.1").touch()
    found = read({}, device_file(tmp_path, "dxg"))
    assert isinstance(found, Gpus) and found.devices == (device,)


def test_a_wedged_driver_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(nvml, "read", never.wait)
    monkeypatch.setattr(gpus, "TIME_LIMIT", 0.05)
    found = read({}, device_file(tmp_path, "nvidiactl"))
    never.set()
    assert isinstance(found, Unknown)
    assert found.reason == "the NVIDIA driver gave no answer within 0.05 s"


def test_nvml_is_not_imported_where_there_is_nothing_to_ask(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from rldoctor.facts.gpus import read\n"
        f"read({{}}, Path({str(tmp_path)!r}))\n"
        "print('pynvml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
