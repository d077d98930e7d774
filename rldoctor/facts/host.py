"""The machine and its limits, from /proc, /sys and the C library."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Disk, Host
from rldoctor.catalogue.probe import Request
from rldoctor.facts import cgroup, hub_cache, libraries
from rldoctor.facts.deadline import within
from rldoctor.facts.environment import of

_ROOT = Path("/")
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp: https://docs.kernel.org/networking/proc_net_tcp.html
_DISK_TIME_LIMIT = 2.0
_COMPILERS = ("gcc", "g++", "clang", "clang++", "nvcc", "ninja")


def collect(request: Request) -> Host:
    """All of the host, for the environment of the request."""
    return read(of(request))


def read(environ: Mapping[str, str], root: Path = _ROOT) -> Host:
    """The host whose /proc and /sys lie under ``root``."""
    uname = os.uname()
    group = cgroup.limits(root)
    total, available = memory(root)
    shm = root / "dev/shm"
    shm_total, shm_free = (_space(shm) if shm.is_dir() else None) or (None, None)
    usable = _affinity()
    return Host(
        system=uname.sysname,
        machine=uname.machine,
        kernel=uname.release,
        libc=libraries.libc_version(),
        cpu_model=_cpu_model(root),
        cpu_count=os.cpu_count() or 1,
        cpu_usable=min(usable, group.cpus) if group.cpus else usable,
        load=os.getloadavg()[0],
        memory_total=total,
        memory_available=available,
        memory_limit=group.memory,
        shm_total=shm_total,
        shm_free=shm_free,
        open_files=_limit(resource.RLIMIT_NOFILE)[0],
        open_files_hard=_limit(resource.RLIMIT_NOFILE)[1],
        processes=_limit(resource.RLIMIT_NPROC)[0],
        locked_memory=_limit(resource.RLIMIT_MEMLOCK)[0],
        disks=disks(environ),
        listening_ports=listening_ports(root),
        container=container(environ, root),
        compilers=compilers(environ),
        pids_limit=group.pids,
        glibcxx=libraries.newest_glibcxx(root),
        libraries=libraries.in_front(environ),
    )


def memory(root: Path = _ROOT) -> tuple[int, int]:
    """Total and available memory in bytes."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        kibibytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return kibibytes["MemTotal"] * 1024, kibibytes["MemAvailable"] * 1024
    except (OSError, ValueError, IndexError, KeyError):  # not Linux
        import psutil

        reported = psutil.virtual_memory()
        return reported.total, reported.available


def listening_ports(root: Path = _ROOT) -> tuple[int, ...]:
    """The TCP ports that something listens on, in this network namespace."""
    ports = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (root / "proc/net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        rows = (line.split() for line in lines)
        ports |= {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTEN}
    return tuple(sorted(ports))


def disks(environ: Mapping[str, str]) -> tuple[Disk, ...]:
    """The file systems that a run writes to. One that does not answer in time is left out."""
    paths = {
        "temp": Path(environ.get("TMPDIR") or "/tmp"),
        "hf-cache": hub_cache.root(environ),
        "ray": ray_folder(environ),
    }
    with contextlib.suppress(FileNotFoundError):  # the current directory was removed
        paths["cwd"] = Path.cwd()
    found = []
    for role, path in paths.items():
        if space := _space(path):
            found.append(Disk(role=role, path=str(path), total=space[0], free=space[1]))
    return tuple(found)


def ray_folder(environ: Mapping[str, str]) -> Path:
    """Where Ray keeps sessions and the address of the last cluster: ``ray/_common/utils.py``."""
    return Path(environ.get("RAY_TMPDIR") or environ.get("TMPDIR") or "/tmp", "ray")


def _space(path: Path) -> tuple[int, int] | None:
    """Total and free bytes where ``path`` is or would be made, or None where the file system does not say."""

    def ask() -> tuple[int, int]:
        there = next((p for p in (path, *path.parents) if p.exists()), path)
        usage = shutil.disk_usage(there)
        return usage.total, usage.free

    try:
        return within(_DISK_TIME_LIMIT, ask)
    except (OSError, TimeoutError):
        return None


def container(environ: Mapping[str, str], root: Path = _ROOT) -> str | None:
    """What kind of container this runs in, or None."""
    signs = {
        "apptainer": bool(environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"))
        or (root / ".singularity.d").exists(),
        "kubernetes": bool(environ.get("KUBERNETES_SERVICE_HOST")) or (root / "var/run/secrets/kubernetes.io").exists(),
        "podman": (root / "run/.containerenv").exists(),
        "docker": (root / ".dockerenv").exists(),
    }
    return next((kind for kind, seen in signs.items() if seen), environ.get("container") or None)


def compilers(environ: Mapping[str, str]) -> dict[str, str]:
    """The compilers that would be found, by name; nvcc also where CUDA_HOME or the usual place has it."""
    path = environ.get("PATH", os.defpath)
    found = {name: shutil.which(name, path=path) for name in _COMPILERS}
    cuda = environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or "/usr/local/cuda"
    found["nvcc"] = found["nvcc"] or shutil.which("nvcc", path=f"{cuda}/bin")
    return {name: where for name, where in found.items() if where}


def _affinity() -> float:
    try:
        return float(len(os.sched_getaffinity(0)))
    except AttributeError:  # not Linux
        return float(os.cpu_count() or 1)


def _cpu_model(root: Path) -> str | None:
    try:
        text = (root / "proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return None
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named.group(1).strip() if named else None


def _limit(which: int) -> tuple[int | None, int | None]:
    soft, hard = (None if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(which))
    return soft, hard
