"""Who uses which file of ``/dev/shm``: a file is known by its inode, as names come again."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


def files() -> dict[int, Path]:
    """This user's files by inode."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    found[status.st_ino] = Path(entry.path)
    return found


def held(pids: Iterable[int]) -> set[int]:
    """What processes have mapped or open."""
    return {inode for pid in pids for inode, _ in (*_mapped(pid), *_opened(pid))}


def written(pids: Iterable[int]) -> set[int]:
    """Of this, what they have for writing."""
    return {inode for pid in pids for inode, writes in (*_mapped(pid), *_opened(pid)) if writes}


def _mapped(pid: int) -> list[tuple[int, bool]]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    # "address permissions offset device inode path", where the path may hold spaces.
    fields = [line.split(maxsplit=5) for line in lines if f" {SHARED_MEMORY}/" in line]
    return [(int(field[4]), field[1].startswith("rw") and field[1].endswith("s")) for field in fields]


def _opened(pid: int) -> list[tuple[int, bool]]:
    found = []
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if link.readlink().parent == SHARED_MEMORY:
                    # The link's own mode says how the file was opened.
                    found.append((link.stat().st_ino, bool(link.lstat().st_mode & stat.S_IWUSR)))
    return found
