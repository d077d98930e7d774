"""What a sleeping thread waits for, as the kernel tells it: the call that it is in, what that is on, and which
processes of this machine hold the other end.

proc(5): ``syscall``, ``fd``, ``fdinfo``, ``locks`` and ``net/tcp``. Whoever may read a process' stack may
read these."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rldoctor.facts import unix_sockets
from rldoctor.facts.proc import PROC, Process, link_of, text_of
from rldoctor.records import dataclass

# Numbers of the calls that wait: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_CALLS: dict[str, dict[int, str]] = {
    "x86_64": {
        0: "read", 1: "write", 7: "poll", 17: "pread", 19: "read", 20: "write", 23: "select", 44: "sendto",
        45: "recvfrom", 46: "sendto", 47: "recvfrom", 61: "wait4",
        72: "fcntl", 73: "flock", 232: "epoll", 247: "waitid", 270: "select", 271: "poll", 281: "epoll",
        299: "recvfrom",
    },
    "aarch64": {
        22: "epoll", 25: "fcntl", 32: "flock", 63: "read", 64: "write", 65: "read", 66: "write", 72: "select",
        73: "poll", 95: "waitid", 206: "sendto", 207: "recvfrom", 211: "sendto", 212: "recvfrom",
        243: "recvfrom", 260: "wait4",
    },
}  # fmt: skip
_READS, _WRITES = ("read", "pread", "recvfrom"), ("write", "sendto")
# A poll over more than these is a loop of events that waits for nobody in particular.
_MOST_POLLED = 8
_POLLFD = struct.Struct("iHH")
_READABLE = 0x001
_ACCESS = os.O_ACCMODE


@dataclass(frozen=True)
class Holder:
    """A process by its number and its short name."""

    pid: int
    name: str


@dataclass(frozen=True)
class Blocked:
    """``on`` is ``pipe``, ``socket``, ``full pipe`` or ``full socket`` (it writes), ``lock``, ``child`` or ``file``,
    ``what`` names it for people (a path, an address, empty for a pipe), ``holders`` are the processes on this machine
    that could end the wait. ``limit`` is after how many seconds it ends by itself, None for never, 0 where its own
    timers wake it, too."""

    call: str
    on: str
    what: str = ""
    holders: tuple[Holder, ...] = ()
    limit: float | None = None


class Kernel:
    """The tables of the kernel at one moment, for the processes of ``table``."""

    def __init__(self, table: Mapping[int, Process]) -> None:
        self._table = table
        self._calls = _CALLS.get(platform.machine(), {})

    def blocked(self, pid: int, thread: int) -> Blocked | None:
        """What a thread waits for; None where it runs, where its wait has no other end, or where it may not be read."""
        fields = text_of(PROC / str(pid) / "task" / str(thread) / "syscall").split()
        call = self._calls.get(int(fields[0])) if fields and fields[0].isdecimal() else None
        if call is None:
            return None
        arguments = [int(field, 16) for field in fields[1:7]]
        if call in ("wait4", "waitid"):
            return self._child(pid, call, arguments)
        if call in ("flock", "fcntl"):
            return self._lock(pid, call, arguments[0])
        ends = (self._end(pid, call, number) for number in _descriptors(pid, call, arguments))
        found = sorted((one for one in ends if one is not None), key=lambda one: not one.holders)
        return replace(found[0], limit=_limit(call, arguments)) if found else None

    def polled_lock(self, pid: int, others: Collection[int]) -> Blocked | None:
        """The lock that a process asks for again and again, without ever waiting in the kernel: the only lock file that
        any of ``others`` holds. None where there is none, or several to choose from."""
        held: dict[str, set[int]] = {}
        for row in map(str.split, text_of(PROC / "locks").splitlines()):
            if len(row) > 5 and row[1] != "->" and row[4].isdecimal() and int(row[4]) in others:
                path = _file_of(int(row[4]), row[5])
                if path.endswith(".lock"):
                    held.setdefault(path, set()).add(int(row[4]))
        held = {path: pids - {pid} for path, pids in held.items() if pids - {pid}}
        if len(held) != 1:
            return None
        ((path, pids),) = held.items()
        return Blocked("poll", "lock", path, self._named(pids))

    def reader(self, pipe: str) -> Process | None:
        """The process that reads from a pipe (``pipe:[131]``), the only one that does."""
        reads = {pid for pid, mode in self._open.get(pipe, ()) if mode == os.O_RDONLY}
        return self._table[reads.pop()] if len(reads) == 1 else None

    def _child(self, pid: int, call: str, arguments: list[int]) -> Blocked | None:
        # wait4(pid, ...) and waitid(P_PID, pid, ...); anything else is any child.
        named = arguments[0] if call == "wait4" else arguments[1] if arguments[0] == 1 else 0
        children = {child for child, process in self._table.items() if process.parent == pid}
        held = {named} if named in children else children
        return Blocked(call, "child", holders=self._named(held)) if held else None

    def _named(self, pids: Iterable[int]) -> tuple[Holder, ...]:
        return tuple(Holder(pid, self._table[pid].name) for pid in sorted(pids) if pid in self._table)

    def _lock(self, pid: int, call: str, number: int) -> Blocked | None:
        """``/proc/locks`` has a row for each holder, and one with ``->`` for each that waits, with the file's inode."""
        path = link_of(PROC / str(pid) / "fd" / str(number))
        rows = [row.split() for row in text_of(PROC / "locks").splitlines()]
        waiting = {row[6] for row in rows if row[1:2] == ["->"] and len(row) > 6 and row[5] == str(pid)}
        holders = {int(row[4]) for row in rows if row[1:2] != ["->"] and len(row) > 5 and row[5] in waiting}
        return Blocked(call, "lock", path or "", self._named(holders - {pid})) if waiting else None

    def _end(self, pid: int, call: str, number: int) -> Blocked | None:
        target = link_of(PROC / str(pid) / "fd" / str(number)) or ""
        if target.startswith("pipe:"):
            on, own = ("full pipe", os.O_WRONLY) if call in _WRITES else ("pipe", os.O_RDONLY)
            others = {other for other, mode in self._open.get(target, ()) if mode != own}
            return Blocked(call, on, holders=self._named(others - {pid}))
        if target.startswith("socket:"):
            return self._socket(pid, call, target)
        if target.startswith("/") and call not in _WRITES and not target.startswith(("/dev/", "/proc/")):
            return Blocked(call, "file", target)
        return None

    def _socket(self, pid: int, call: str, target: str) -> Blocked | None:
        rows = [row for name in ("tcp", "tcp6") for row in _connections(text_of(PROC / str(pid) / "net" / name))]
        mine = next((row for row in rows if f"socket:[{row.inode}]" == target), None)
        if mine is None:
            return self._unix_socket(pid, call, target)
        if mine.listens:
            return None
        ends = [row for row in rows if (row.local, row.remote) == (mine.remote, mine.local) and row.inode != "0"]
        # One that nobody has accepted yet is the listener's.
        ends = ends or [row for row in rows if row.listens and row.serves(mine.remote)]
        holders = {p for row in ends for p, _ in self._open.get(f"socket:[{row.inode}]", ())}
        return Blocked(call, _socket(call), mine.remote, self._named(holders - {pid}))

    def _unix_socket(self, pid: int, call: str, target: str) -> Blocked | None:
        end = self._unix.get(target.removeprefix("socket:[").removesuffix("]"))
        if end is None:
            return None
        peer, path = end
        holders = {other for other, _ in self._open.get(f"socket:[{peer}]", ())}
        # Both ends in one process are how a loop of events wakes itself; what it forks has them, too.
        return None if pid in holders else Blocked(call, _socket(call), path or "a socket", self._named(holders))

    @cached_property
    def _unix(self) -> Mapping[str, tuple[str, str]]:
        return unix_sockets.ends()

    @cached_property
    def _open(self) -> dict[str, set[tuple[int, int]]]:
        """Pipes and sockets -> the processes that have them open, and how."""
        found: dict[str, set[tuple[int, int]]] = {}
        for pid in self._table:
            for number in _numbers(PROC / str(pid) / "fd"):
                target = link_of(PROC / str(pid) / "fd" / str(number)) or ""
                if target.startswith(("pipe:", "socket:")):
                    flags = re.search(
                        r"^flags:\s+(\d+)", text_of(PROC / str(pid) / "fdinfo" / str(number)), re.MULTILINE
                    )
                    found.setdefault(target, set()).add((pid, int(flags[1], 8) & _ACCESS if flags else os.O_RDWR))
        return found


@dataclass(frozen=True)
class _Connection:
    local: str
    remote: str
    inode: str
    listens: bool

    def serves(self, address: str) -> bool:
        """Whether it listens where others connect to ``address``."""
        host, _, port = self.local.rpartition(":")
        return address.rpartition(":")[2] == port and (host in ("0.0.0.0", "[::]") or address == self.local)


def _connections(table: str) -> Iterator[_Connection]:
    for row in table.splitlines()[1:]:
        fields = row.split()
        if len(fields) > 9:
            yield _Connection(_address(fields[1]), _address(fields[2]), fields[9], fields[3] == "0A")


def _address(text: str) -> str:
    """``0100007F:1F90`` as ``127.0.0.1:8080``; an IPv4 address within IPv6 as such."""
    host, _, port = text.partition(":")
    words = [struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8)]
    raw = b"".join(words)
    if len(raw) == 16 and raw[:12] == bytes(10) + b"\xff\xff":
        raw = raw[12:]
    import ipaddress  # only here: hardly any run needs it

    shown = str(ipaddress.ip_address(raw))
    return f"[{shown}]:{int(port, 16)}" if len(raw) == 16 else f"{shown}:{int(port, 16)}"


def _socket(call: str) -> str:
    return "full socket" if call in _WRITES else "socket"


def _limit(call: str, arguments: list[int]) -> float | None:
    """After how many seconds a call ends by itself (see :class:`Blocked`). A poll has milliseconds, negative for no
    limit, or the address of a limit, which is not read."""
    if call in (*_READS, *_WRITES):
        return None
    limit = arguments[2]
    if call != "poll" or limit >> 32 not in (0, 0xFFFF_FFFF):
        return 0.0
    return None if limit & 0x8000_0000 else (limit & 0xFFFF_FFFF) / 1000


def _descriptors(pid: int, call: str, arguments: list[int]) -> list[int]:
    """The file descriptors that a call waits on."""
    if call in (*_READS, *_WRITES):
        return arguments[:1]
    if call == "poll" and 0 < arguments[1] <= _MOST_POLLED:
        raw = _memory(pid, arguments[0], _POLLFD.size * arguments[1])
        return [number for number, events, _ in _POLLFD.iter_unpack(raw) if number >= 0 and events & _READABLE]
    if call == "select" and arguments[1]:
        raw = _memory(pid, arguments[1], 128)
        asked = [n for n in range(min(arguments[0], 8 * len(raw))) if raw[n // 8] >> n % 8 & 1]
        return asked if len(asked) <= _MOST_POLLED else []
    if call == "epoll":
        watched = text_of(PROC / str(pid) / "fdinfo" / str(arguments[0]))
        asked = [int(number) for number in re.findall(r"^tfd:\s+(\d+)", watched, re.MULTILINE)]
        return asked if len(asked) <= _MOST_POLLED else []
    return []


def _file_of(pid: int, identity: str) -> str:
    """The path of an open file that ``/proc/locks`` names as ``MAJOR:MINOR:INODE``, empty where it cannot be told."""
    inode = identity.rpartition(":")[2]
    for number in _numbers(PROC / str(pid) / "fd"):
        with contextlib.suppress(OSError):
            if str((PROC / str(pid) / "fd" / str(number)).stat().st_ino) == inode:
                return link_of(PROC / str(pid) / "fd" / str(number)) or ""
    return ""


def _memory(pid: int, address: int, size: int) -> bytes:
    try:
        with (PROC / str(pid) / "mem").open("rb", buffering=0) as opened:
            opened.seek(address)
            return opened.read(size)
    except (OSError, ValueError, OverflowError):
        return b""


def _numbers(folder: Path) -> Iterable[int]:
    try:
        return [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()]
    except OSError:
        return []
