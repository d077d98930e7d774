"""The limits of the control groups, of either version, that this process lives in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rldoctor.records import dataclass

# What version 1 reports for "no limit" is the largest multiple of the page size; no machine has as much.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, kw_only=True)
class Limits:
    """``memory`` in bytes, ``cpus`` as a number of processors, ``pids`` of processes and threads; None is unlimited."""

    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None


def limits(root: Path = Path("/")) -> Limits:
    """The tightest limit of each kind between this process's group and the top of what is visible here."""
    groups = dict(_groups(root / "proc/self/cgroup"))
    unified = groups.get("")
    top = root / "sys/fs/cgroup"
    v2 = [top, top / "unified"] if unified is not None else []

    def tightest(controller: str, read_v1: Callable[[Path], float | None], v2_file: str) -> float | None:
        values = [_quota(folder / v2_file) for mount in v2 for folder in _upwards(mount, unified or "")]
        group = groups.get(controller)
        if group is not None:
            values += [read_v1(folder) for mount in _mounts(top, controller) for folder in _upwards(mount, group)]
        return min((v for v in values if v is not None), default=None)

    memory = tightest("memory", lambda folder: _number(folder / "memory.limit_in_bytes"), "memory.max")
    pids = tightest("pids", lambda folder: _number(folder / "pids.max"), "pids.max")
    return Limits(
        memory=None if memory is None else int(memory),
        cpus=tightest("cpu", _cfs_quota, "cpu.max"),
        pids=None if pids is None else int(pids),
    )


def _groups(file: Path) -> Iterator[tuple[str, str]]:
    """Controller -> group; version 2 is the one without a controller."""
    for line in _read(file).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        for controller in controllers.split(","):
            yield controller, group


def _mounts(top: Path, controller: str) -> list[Path]:
    # The CPU controller is commonly mounted together with the accounting one, under a joint name.
    return [top / controller, top / "cpu,cpuacct"] if controller == "cpu" else [top / controller]


def _upwards(mount: Path, group: str) -> Iterator[Path]:
    """The group's directory and its parents up to the mount. Inside a container the path may name groups that are not
    visible; those have no files, and the mount itself is the container's group."""
    path = Path(group.strip("/"))
    for part in (path, *path.parents):
        if ".." not in part.parts:  # a group outside of this namespace
            yield mount / part


def _cfs_quota(folder: Path) -> float | None:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _quota(file: Path) -> float | None:
    """A file of version 2: a number, ``max``, or for the CPU a quota and its period."""
    words = _read(file).split()
    if not words or words[0] == "max" or not all(word.isdecimal() for word in words):
        return None
    numbers = [int(word) for word in words]
    return float(numbers[0]) if len(numbers) == 1 else numbers[0] / max(1, numbers[1])


def _number(file: Path) -> float | None:
    text = _read(file).strip()
    return float(text) if text.isdecimal() and int(text) < _NO_LIMIT else None


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
