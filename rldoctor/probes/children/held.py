"""What a process and those below it hold: memory, open files, sockets, threads, processes, shared memory by name."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import stat
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


def held() -> dict[str, int]:
    """Of this process group: ``host`` (resident memory in bytes), ``files``, ``sockets``, ``threads`` and
    ``processes``; ``shared`` is how many files of this user are in ``/dev/shm``, also of others of his programs."""
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
    return {**found, "shared": len(_shared())}


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


def _shared() -> list[str]:
    found = []
    with contextlib.suppress(OSError), os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    found.append(entry.name)
    return found
