"""The node as one of many: its name, when it was looked at and by which clock, its network, its Ray instances, faults
of its GPUs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from rldoctor.case import InfinibandPort, Interface, Node, RayInstance
from rldoctor.catalogue.probe import Request
from rldoctor.facts import clock
from rldoctor.facts.deadline import within
from rldoctor.facts.environment import of
from rldoctor.facts.host import ray_folder

_ROOT = Path("/")
# https://docs.nvidia.com/deploy/xid-errors/
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([^)]*)\): (\d+)")
_KERNEL_TIME_LIMIT = 1.0
# ray/_common/utils.py, get_ray_address_file
_LAST_ADDRESS = "ray_current_cluster"
_MOST_RECORDS = 20_000


def collect(request: Request) -> Node:
    """The node on which this runs."""
    return read(of(request))


def read(environ: Mapping[str, str], root: Path = _ROOT) -> Node:
    """The node whose /proc, /sys and /dev lie under ``root``."""
    started = re.search(r"^btime (\d+)$", _text(root / "proc/stat"), re.MULTILINE)
    return Node(
        host=os.uname().nodename,
        time=time.time(),
        boot=_text(root / "proc/sys/kernel/random/boot_id").strip() or None,
        started=float(started[1]) if started else None,
        interfaces=tuple(_interfaces(root)),
        infiniband=tuple(_infiniband(root)),
        ray=tuple(_ray(root)),
        ray_last=_text(root / str(ray_folder(environ).absolute())[1:] / _LAST_ADDRESS).strip() or None,
        xids=_xids(root),
        clock_kept=clock.synchronised() if root == _ROOT else None,
    )


def _interfaces(root: Path) -> Iterator[Interface]:
    """The interfaces of hardware, and those that bundle it; bridges, tunnels and containers' pairs come and go."""
    for path in sorted((root / "sys/class/net").glob("*")):
        if (path / "device").exists() or (path / "bonding").exists():
            speed, mtu = _text(path / "speed").strip(), _text(path / "mtu").strip()
            yield Interface(
                name=path.name,
                state=_text(path / "operstate").strip() or "unknown",
                speed=int(speed) if speed.isdecimal() else None,
                mtu=int(mtu) if mtu.isdecimal() else None,
            )


def _infiniband(root: Path) -> Iterator[InfinibandPort]:
    for path in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        yield InfinibandPort(
            name=f"{path.parent.parent.name}:{path.name}",
            state=_text(path / "state").partition(":")[2].strip().lower() or "unknown",
            rate=_text(path / "rate").strip() or None,
        )


def _ray(root: Path) -> Iterator[RayInstance]:
    """The raylets on this node: each is a member of one cluster."""
    for path in (root / "proc").glob("[0-9]*/cmdline"):
        words = _text(path).split("\0")
        if Path(words[0]).name == "raylet":
            given = dict(word.lstrip("-").split("=", 1) for word in words[1:] if word.startswith("--") and "=" in word)
            yield RayInstance(
                pid=int(path.parent.name),
                address=given.get("gcs-address") or given.get("gcs_address"),
                session=Path(given["session_dir"]).name if given.get("session_dir") else None,
            )


def _xids(root: Path) -> tuple[str, ...] | None:
    """The faults that NVIDIA's driver wrote into the kernel's log, as ``device: number``; None where that may not be
    read."""
    try:
        found = within(_KERNEL_TIME_LIMIT, lambda: list(_records(root / "dev/kmsg")))
    except (OSError, TimeoutError):
        return None
    said = (match for text in found if (match := _XID.search(text)) is not None)
    return tuple(dict.fromkeys(f"{match[1]}: {match[2]}" for match in said))


def _records(path: Path) -> Iterator[str]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(handle, 8192)
            except BlockingIOError:
                return
            except BrokenPipeError:  # a record was overwritten before it was read
                continue
            if not record:
                return
            yield record.decode(errors="replace")
    finally:
        os.close(handle)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # an interface that is down has no speed; a process may end meanwhile
        return ""
