"""The machine and its limits."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

import psutil
import pytest

from rldoctor.catalogue.probe import Request
from rldoctor.facts import host
from rldoctor.facts.host import container, disks, listening_ports, memory


def test_this_machine_is_what_psutil_says() -> None:
    here = host.collect(Request())
    assert here.memory_total == psutil.virtual_memory().total
    assert 0 < here.memory_available <= here.memory_total
    assert here.cpu_count == psutil.cpu_count()
    assert 0 < here.cpu_usable <= here.cpu_count
    assert here.open_files is None or here.open_files_hard is None or here.open_files <= here.open_files_hard
    assert (here.system, here.machine) == (os.uname().sysname, os.uname().machine)


def test_a_port_is_listed_while_something_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in listening_ports()
    assert port not in listening_ports()


def test_connections_are_no_listeners(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n"
        "   1: 0100007F:0016 0100007F:C001 01 00000000:00000000\n"
    )
    (tmp_path / "proc/net/tcp6").write_text("header\n   0: 00000000:18EB 00000000:0000 0A 0\n   truncated\n")
    assert listening_ports(tmp_path) == (6379, 8080)


def test_without_proc_memory_comes_from_psutil(tmp_path: Path) -> None:
    assert memory(tmp_path)[0] == psutil.virtual_memory().total
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  2048 kB\nMemAvailable: 1024 kB\nHugePages_Total: 0\n")
    assert memory(tmp_path) == (2048 * 1024, 1024 * 1024)


def test_the_disks_of_a_run_follow_the_environment(tmp_path: Path) -> None:
    found = {disk.role: disk for disk in disks({"HOME": str(tmp_path)})}
    assert found["hf-cache"].path == str(tmp_path / ".cache/huggingface/hub")
    assert found["cwd"].path == str(Path.cwd())
    assert found["ray"].path == "/tmp/ray"
    assert 0 < found["temp"].free <= found["temp"].total

    moved = {"HF_HOME": str(tmp_path / "hf"), "TMPDIR": str(tmp_path / "t"), "RAY_TMPDIR": str(tmp_path / "r")}
    paths = {disk.role: disk.path for disk in disks(moved)}
    assert paths["hf-cache"] == str(tmp_path / "hf/hub")
    assert paths["temp"] == str(tmp_path / "t")
    assert paths["ray"] == str(tmp_path / "r/ray")
    assert {d.role: d.path for d in disks({**moved, "HF_HUB_CACHE": "/x"})}["hf-cache"] == "/x"


def test_a_disk_that_does_not_answer_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = threading.Event()
    answer = shutil.disk_usage

    def usage(path: Path) -> object:
        if Path(path) == tmp_path:
            dead.wait()  # as a network file system whose server is gone
        return answer(path)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    monkeypatch.setattr(host, "_DISK_TIME_LIMIT", 0.05)
    roles = {disk.role for disk in disks({"TMPDIR": str(tmp_path)})}
    dead.set()
    assert roles == {"hf-cache", "cwd"}


def test_a_home_or_directory_that_is_not_there_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    found = host.read({"HF_HUB_CACHE": "~nobody-of-this-name/hub"}, tmp_path)
    assert {disk.role for disk in found.disks} >= {"temp", "ray"}
    assert "cwd" not in {disk.role for disk in found.disks}


def test_without_shared_memory_its_size_is_not_that_of_another_file_system(tmp_path: Path) -> None:
    assert host.read({}, tmp_path).shm_total is None
    (tmp_path / "dev/shm").mkdir(parents=True)
    assert host.read({}, tmp_path).shm_total


@pytest.mark.parametrize(
    ("environ", "files", "kind"),
    [
        ({}, [], None),
        ({}, [".dockerenv"], "docker"),
        ({}, ["run/.containerenv"], "podman"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, [".dockerenv"], "kubernetes"),
        ({"APPTAINER_CONTAINER": "/x.sif"}, [], "apptainer"),
        ({}, [".singularity.d/env"], "apptainer"),
        ({"container": "lxc"}, [], "lxc"),
    ],
)
def test_kinds_of_container(tmp_path: Path, environ: dict[str, str], files: list[str], kind: str | None) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert container(environ, tmp_path) == kind


def test_compilers_are_those_of_the_environment(tmp_path: Path) -> None:
    for name in ("bin/g++", "cuda/bin/nvcc"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch(mode=0o755)
    environ = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "cuda")}
    assert host.compilers(environ) == {"g++": str(tmp_path / "bin/g++"), "nvcc": str(tmp_path / "cuda/bin/nvcc")}
    assert "g++" not in host.compilers({"PATH": "/nonexistent"})
