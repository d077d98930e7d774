"""RLD604: the host's memory, not the device's."""

from __future__ import annotations

import pytest
from rldoctor_checks.processes.host_memory import check

from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import OUT_OF_MEMORY


@pytest.mark.parametrize(
    "message",
    [
        # Ray 2.4x and 2.60
        "Task was killed due to the node running low on memory.\nMemory on the node (IP: 192.0.2.2) was 250.1GB "
        "/ 251.5GB",
        "1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 192.0.2.2, ID: f8) was "
        "250.1GB used / 251.5GB limit (0.99)",
    ],
)
def test_rays_monitor_says_how_full_the_node_was(message: str) -> None:
    found = finding(check, raised("ray.exceptions.OutOfMemoryError", message))
    assert "250.1GB of 251.5GB used" in found.message


def test_the_kernel_names_the_process() -> None:
    text = "[12.3] Out of memory: Killed process 4711 (ray::WorkerDict) total-vm:1kB, anon-rss:104857600kB\nKilled\n"
    assert "ray::WorkerDict (pid 4711), 100.0 GiB resident" in finding(check, text).message


def test_a_refused_allocation() -> None:
    text = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes. Error code 12"
    assert "1.00 GiB" in finding(check, raised("RuntimeError", text)).message
    assert finding(check, raised("MemoryError", "")).code == "RLD604"


@pytest.mark.parametrize("text", [OUT_OF_MEMORY, "Killed\n", "run.sh: line 3: 4711 Killed   python train.py\n"])
def test_the_devices_memory_and_a_bare_killed_are_no_proof(text: str) -> None:
    assert findings(check, text) == []
