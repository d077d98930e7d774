"""Reads a file that somebody else may have put there: a regular file, and no more of it than fits."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read(file: Path | str, most: int) -> bytes:
    """What a file holds; nothing is waited for. Raises :class:`OSError` with a reason where it cannot be read, is no
    regular file (a pipe would never end), or holds more than ``most`` bytes."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = IsADirectoryError if stat.S_ISDIR(mode) else OSError
            raise kind(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a regular file", str(file))
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            held = opened.read(most + 1)
    finally:
        os.close(descriptor)
    if len(held) > most:
        size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"
        raise OSError(errno.EFBIG, f"is larger than {size}", str(file))
    return held


def is_file(path: Path | str) -> bool:
    """Whether there is a file of this name; a name that no file can have names none."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def text(file: Path | str, most: int) -> str:
    """The same as text; what is no UTF-8 is replaced."""
    return read(file, most).decode("utf-8", "replace")
