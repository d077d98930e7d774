"""The folders of this process's probes, each with the log of one child: they go when the process ends, but for those
that something refers to. What a process that was killed left behind, the next one removes when it starts."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rldoctor import redact
from rldoctor.facts import proc
from rldoctor.io import untrusted
from rldoctor.model import Report

PREFIX = "rldoctor-"
# Says which process a folder belongs to; what is kept for a person belongs to none.
OWNER = "owner"
# Folders of other processes that are looked at, and the seconds after which one goes although it cannot be seen from
# here whether its process lives: a container that has the same folder for temporary files. One has its owner as soon as
# it is made.
_MOST = 1000
_OLD = 24 * 3600
_UNFINISHED = 5
# What ``tempfile.mkdtemp`` makes; an empty folder of another name or mode is somebody's own.
_MADE = re.compile(rf"{PREFIX}[\w-]+-[a-z0-9_]{{8}}")
_MODE = 0o700
# Characters of a log that are searched for secrets at a time.
_AT_ONCE = 1 << 20
# Those that are to go, by their names, with the process that made them: a fork of it removes nothing.
_going: dict[str, tuple[Path, int]] = {}


def new_folder(name: str) -> Path:
    """A new folder for a child of this name. Raises :class:`OSError` where there is no room for one."""
    sweep()
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:40]
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{plain}-"))
    (folder / OWNER).write_text(_owner(os.getpid()))
    _going[folder.name] = (folder, os.getpid())
    return folder


@contextlib.contextmanager
def for_a_while(name: str) -> Iterator[Path]:
    """A folder for what is needed inside the block alone."""
    folder = new_folder(name)
    try:
        yield folder
    finally:
        del _going[folder.name]
        shutil.rmtree(folder, ignore_errors=True)


def _owner(pid: int) -> str:
    """What tells a process from all others: its number, when it was started, and in whose numbers; empty where there is
    no such process."""
    process = proc.read(pid)
    return f"{pid} {process.started} {_numbers()}" if process is not None else ""


def _numbers() -> str:
    """The name space in which processes have their numbers here."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    return "-"


@cache
def sweep() -> None:
    """Removes, once for each process, what this user's earlier ones left because they were killed."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in itertools.islice((one for one in entries if one.name.startswith(PREFIX)), _MOST):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
                if mine and _is_left(Path(entry.path), time.time() - status.st_mtime):
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(folder: Path, age: float) -> bool:
    """Whether the process that made a folder is gone. Raises :class:`OSError` where that cannot be told."""
    try:
        owner = untrusted.text(folder / OWNER, 1 << 10)
    except FileNotFoundError:  # kept for a person, or killed before it had an owner
        made = _MADE.fullmatch(folder.name) and stat.S_IMODE(folder.stat().st_mode) == _MODE
        return age > _UNFINISHED and bool(made) and not any(folder.iterdir())
    if not owner:  # killed while it was written, before all else
        return age > _UNFINISHED and [entry.name for entry in folder.iterdir()] == [OWNER]
    pid, _, rest = owner.partition(" ")
    if not rest.endswith(_numbers()):
        return age > _OLD
    return pid.isdecimal() and _owner(int(pid)) != owner


def keep_logs(observations: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Keeps the logs of jobs that did not come to their end, and those that the report names. Returns the observations
    without the names of the others."""
    failed = [job for jobs in observations.values() for job in jobs.values() if job.get("ended") != "done"]
    reported = msgspec.json.encode((failed, report))
    for name in [name for name in _going if name.encode() in reported]:
        folder, _ = _going.pop(name)
        (folder / OWNER).unlink(missing_ok=True)
        for log in folder.glob("log*"):
            _redact(log)
    return {name: {key: _settled(job) for key, job in jobs.items()} for name, jobs in observations.items()}


def _redact(log: Path) -> None:
    """Takes the secrets out of a log that stays."""
    with contextlib.suppress(OSError):
        with log.open(encoding="utf-8", errors="surrogateescape", newline="") as opened:
            clean = [redact.text("".join(lines)) for lines in iter(lambda: opened.readlines(_AT_ONCE), [])]
        log.write_text("".join(clean), encoding="utf-8", errors="surrogateescape", newline="")


def _settled(job: Mapping[str, Any]) -> Mapping[str, Any]:
    goes = job.get("log") is not None and Path(job["log"]).parent.name in _going
    return {**job, "log": None} if goes else job


@atexit.register
def remove() -> None:
    """Removes the folders that are to go."""
    for folder, maker in _going.values():
        if maker == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
