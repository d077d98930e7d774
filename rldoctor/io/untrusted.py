"""Reads what somebody else may have put there: a regular file, and no more of it than fits; Python that nests as deeply
as it likes."""

from __future__ import annotations

import errno
import os
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

_BEGINNING = 2 << 20  # bytes
_MORE = 64 << 10  # bytes that are read at once of a file that is longer than it said


def read(file: Path | str, most: int) -> bytes:
    """What a file holds; nothing is waited for. Raises :class:`OSError` with a reason where it cannot be read, is no
    regular file (a pipe would never end), or holds more than ``most`` bytes."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = IsADirectoryError if stat.S_ISDIR(status.st_mode) else OSError
            raise kind(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL, "not a regular file", str(file))
        # One call reads most files whole: room for as much as may be read costs more than reading thousands of them.
        held = os.read(descriptor, min(status.st_size, most) + 1)
        while len(held) <= most and (further := os.read(descriptor, min(most + 1 - len(held), _MORE))):
            held += further
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


def beginning(file: Path | str) -> bytes:
    """The first bytes of a file, in which a log says what it is; none of one that cannot be read."""
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_BEGINNING)
    except OSError:
        return b""


def text(file: Path | str, most: int) -> str:
    """The same as text; what is no UTF-8 is replaced."""
    return read(file, most).decode("utf-8", "replace")


def python(source: str) -> ast.Module:
    """The syntax tree of a text. Raises :class:`SyntaxError` alone; what Python would warn of in another's text is
    not ours to mention."""
    import ast

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError:
        raise
    except (ValueError, MemoryError, RecursionError):
        raise SyntaxError("nested too deeply to be read") from None
