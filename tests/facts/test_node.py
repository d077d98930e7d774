"""The node as one of many, from files laid out like /proc, /sys and /dev."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from rldoctor.case import InfinibandPort, Interface, RayInstance
from rldoctor.facts import node


def laid(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_this_machine() -> None:
    found = node.read({})
    assert found.host == socket.gethostname()
    assert found.started is not None and found.started < found.time
    assert found.boot


def test_interfaces_of_hardware_and_their_speed(tmp_path: Path) -> None:
    net = "sys/class/net"
    root = laid(
        tmp_path,
        {
            f"{net}/eth0/device/vendor": "0x15b3",
            f"{net}/eth0/operstate": "up\n",
            f"{net}/eth0/speed": "400000\n",
            f"{net}/eth0/mtu": "9000\n",
            f"{net}/ib0/device/vendor": "0x15b3",
            f"{net}/ib0/operstate": "down\n",
            f"{net}/ib0/speed": "-1\n",
            f"{net}/bond0/bonding/mode": "802.3ad 4",
            f"{net}/bond0/operstate": "up\n",
            f"{net}/lo/operstate": "unknown\n",
            f"{net}/veth12ab/operstate": "up\n",
            f"{net}/docker0/operstate": "down\n",
        },
    )
    assert node.read({}, root).interfaces == (
        Interface(name="bond0", state="up"),
        Interface(name="eth0", state="up", speed=400000, mtu=9000),
        Interface(name="ib0", state="down"),
    )


def test_infiniband_ports(tmp_path: Path) -> None:
    port = "sys/class/infiniband/mlx5_0/ports/1"
    root = laid(tmp_path, {f"{port}/state": "4: ACTIVE\n", f"{port}/rate": "400 Gb/sec (4X NDR)\n"})
    assert node.read({}, root).infiniband == (
        InfinibandPort(name="mlx5_0:1", state="active", rate="400 Gb/sec (4X NDR)"),
    )


def test_ray_instances_by_their_raylets(tmp_path: Path) -> None:
    words = [
        "/opt/ray/core/src/ray/raylet/raylet",
        "--gcs-address=10.0.0.1:6379",
        "--session_dir=/tmp/ray/session_2026-11-22_1",
    ]
    root = laid(
        tmp_path, {"proc/12/cmdline": "\0".join(words), "proc/13/cmdline": "grep\0raylet", "proc/14/cmdline": ""}
    )
    assert node.read({}, root).ray == (RayInstance(pid=12, address="10.0.0.1:6379", session="session_2026-11-22_1"),)


def test_the_address_that_ray_start_left(tmp_path: Path) -> None:
    root = laid(tmp_path, {"tmp/ray/ray_current_cluster": "10.0.0.1:6379\n", "mnt/x/ray/ray_current_cluster": "h:6380"})
    told = [
        node.read(one, root).ray_last for one in ({}, {"TMPDIR": "/mnt/x"}, {"RAY_TMPDIR": "/mnt/y", "TMPDIR": "/"})
    ]
    assert told == ["10.0.0.1:6379", "h:6380", None]


def test_faults_of_gpus_in_the_kernels_log(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    log = tmp_path / "dev" / "kmsg"
    assert node.read({}, tmp_path).xids is None
    log.write_text("4,1,5,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.\n")
    assert node.read({}, tmp_path).xids == ("0000:3b:00: 79",)
    os.truncate(log, 0)
    assert node.read({}, tmp_path).xids == ()
