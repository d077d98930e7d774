"""What a process and those below it hold: memory, open files, sockets, threads, processes, shared memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from pathlib import Path

import shared_memory


class SharedMemory:
    """What came to ``/dev/shm`` since and was seen in use by this process group, whether it still uses it or not: other
    programs have files there, too. Whoever wants to know it has to :meth:`look` often."""

    def __init__(self) -> None:
        self._before = frozenset(shared_memory.files())
        self._own: set[int] = set()

    def look(self) -> int:
        """How many files there are of it."""
        there = shared_memory.files().keys()
        if new := there - self._before - self._own:
            self._own |= new & shared_memory.held(int(process.name) for process in _group())
        return len(self._own & there)


def held() -> dict[str, int]:
    """Of this process group: ``host`` (resident memory in bytes), ``files``, ``sockets``, ``threads`` and
    ``processes``."""
    found = dict.fromkeys(("host", "files", "sockets", "threads", "processes"), 0)
    for process in _group():
        with contextlib.suppress(OSError):  # it has ended
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            links = [_target(link) for link in (process / "fd").iterdir()]
            found["host"] += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            found["threads"] += int(fields[17])
            found["files"] += len(links)
            found["sockets"] += sum(link.startswith("socket:") for link in links)
            found["processes"] += 1
    return found


def settle() -> None:
    """Gives back what is only waiting to be used again, so that what is held says what is needed."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # a C library other than GNU's
        ctypes.CDLL(None).malloc_trim(0)


def _group() -> list[Path]:
    """The processes of this one's group: a child's whole tree is one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == os.getpgrp():
                found.append(process)
    return found


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed meanwhile
        return ""
