"""Reads what /proc tells of a process; one that has gone, or may not be read, tells nothing and is no error."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from rldoctor.records import dataclass

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Process:
    """One row of the table. ``user`` is the effective user id, ``started`` counts clock ticks since boot and tells two
    processes of one number apart."""

    pid: int
    parent: int
    user: int
    state: str
    name: str
    started: int

    @property
    def is_there(self) -> bool:
        """Whether it has not ended yet (a zombie has)."""
        return self.state not in ("Z", "X")


@dataclass(frozen=True)
class Task:
    """A thread as the kernel sees it. ``ticks`` is its processor time so far, ``switches`` how often it gave up the
    processor by itself, ``moved`` the bytes that it has read and written (sockets are not counted)."""

    name: str
    state: str
    ticks: int
    wait: str | None
    switches: int | None = None
    moved: int | None = None


def table() -> dict[int, Process]:
    """Every process that there is."""
    found = (read(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdecimal())
    return {process.pid: process for process in found if process is not None}


def read(pid: int) -> Process | None:
    """One process, or None where there is none of that number."""
    stat, status = _stat(PROC / str(pid) / "stat"), text_of(PROC / str(pid) / "status")
    user = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    if stat is None or user is None:
        return None
    name, fields = stat
    return Process(pid, int(fields[1]), int(user[1]), fields[0], name, int(fields[19]))


def command(pid: int) -> list[str]:
    """Its arguments, or the title that it gave itself as the only one."""
    return [part for part in text_of(PROC / str(pid) / "cmdline").split("\0") if part.strip()]


def environment(pid: int) -> dict[str, str]:
    """The variables that it was started with; empty where they may not be read."""
    pairs = (part.partition("=") for part in text_of(PROC / str(pid) / "environ").split("\0"))
    return {name: value for name, equals, value in pairs if equals and name}


def executable(pid: int) -> str | None:
    return link_of(PROC / str(pid) / "exe")


def directory(pid: int) -> str | None:
    return link_of(PROC / str(pid) / "cwd")


def open_files(pid: int) -> dict[int, str]:
    """What its file descriptors lead to."""
    try:
        entries = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return {}
    found = {int(entry.name): link_of(entry) for entry in entries if entry.name.isdecimal()}
    return {number: target for number, target in found.items() if target}


def appends(pid: int, number: int) -> bool:
    """Whether a file descriptor was opened to append."""
    found = re.search(r"^flags:\s+(\d+)", text_of(PROC / str(pid) / "fdinfo" / str(number)), re.MULTILINE)
    return found is not None and bool(int(found[1], 8) & os.O_APPEND)


def within(pid: int, file: str) -> Path:
    """A file as the process sees it, which in a container is not where we see it."""
    inside = PROC / str(pid) / "root" / file.lstrip("/")
    return inside if os.access(inside, os.R_OK) else Path(file)


def ticks(pid: int) -> int | None:
    """Its processor time so far, all threads together."""
    stat = _stat(PROC / str(pid) / "stat")
    return int(stat[1][11]) + int(stat[1][12]) if stat is not None else None


def ticks_below(pid: int, parents: dict[int, int], without: Collection[int]) -> int:
    """The processor time of what it started: of children that have ended, and of all that are there but those in
    ``without``. A compiler, a tokenizer or a tool may work for a process that only waits."""
    stat = _stat(PROC / str(pid) / "stat")
    ended = int(stat[1][13]) + int(stat[1][14]) if stat is not None else 0
    return ended + sum(ticks(child) or 0 for child in below({pid}, parents) if child not in without)


def below(tops: Collection[int], parents: dict[int, int]) -> set[int]:
    """What these processes started, and what that started."""
    found = set[int]()
    while more := {pid for pid, parent in parents.items() if parent in found or parent in tops} - found:
        found |= more
    return found


def waited(pid: int) -> float:
    """The seconds for which the thread that waited longest, of this process and those below it, was ready to run and
    got no processor; 0 where the kernel does not count them (Documentation/scheduler/sched-stats.rst)."""
    parents = {process.pid: process.parent for process in table().values()}
    threads = (thread for one in {pid, *below({pid}, parents)} for thread in (PROC / str(one)).glob("task/*/schedstat"))
    counted = (text_of(thread).split() for thread in threads)
    return max((int(numbers[1]) for numbers in counted if len(numbers) > 1), default=0) / 1e9


def switches(pid: int) -> int | None:
    """How often its main thread gave up the processor by itself."""
    return _switches(PROC / str(pid))


def _switches(place: Path) -> int | None:
    found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text_of(place / "status"), re.MULTILINE)
    return int(found[1]) if found else None


def _moved(place: Path) -> int | None:
    # A call counts once it has come back, what it does to a disk meanwhile (proc(5), /proc/pid/io).
    found = re.findall(r"^(?:rchar|wchar|read_bytes|write_bytes): (\d+)", text_of(place / "io"), re.MULTILINE)
    return sum(map(int, found)) if found else None


def tasks(pid: int) -> dict[int, Task]:
    """Its threads by their numbers."""
    try:
        numbers = [int(entry.name) for entry in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return {}
    found: dict[int, Task] = {}
    for number in numbers:
        place = PROC / str(pid) / "task" / str(number)
        stat = _stat(place / "stat")
        if stat is not None:
            name, fields = stat
            wait = text_of(place / "wchan").strip("0 \n")
            spent = int(fields[11]) + int(fields[12])
            found[number] = Task(name, fields[0], spent, wait or None, _switches(place), _moved(place))
    return found


def age(process: Process) -> float | None:
    """Seconds since it was started."""
    uptime = text_of(PROC / "uptime").split()
    return round(float(uptime[0]) - process.started / TICKS, 1) if uptime else None


def _stat(file: Path) -> tuple[str, list[str]] | None:
    # "pid (name) state parent ...", where the name may hold spaces and parentheses.
    head, _, rest = text_of(file).rpartition(")")
    fields = rest.split()
    return (head.partition("(")[2], fields) if len(fields) > 19 else None


def text_of(file: Path) -> str:
    """The beginning of a file of the kernel's; empty where there is none, or it may not be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def link_of(file: Path) -> str | None:
    """What a link of the kernel's leads to."""
    try:
        return str(file.readlink())
    except OSError:
        return None
