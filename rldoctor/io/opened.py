"""Which files this process opened to read them, whoever did: a result must not take the place of what it was made of,
a model's config.json, a script that a launch sources, a rank's log of a folder. Python tells every opening of a file to
whoever audits it; nothing else knows of them all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR
# Devices and numbers of files; None where nobody asks.
_read: set[tuple[int, int]] | None = None


def note() -> None:
    """Begins anew to keep in mind which files are opened."""
    global _read
    _read = set()
    _audit()


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Files that are opened meanwhile only show what has a place already: none is part of a result."""
    global _read
    before, _read = _read, None
    try:
        yield
    finally:
        _read = before


def was_read(file: Path) -> bool:
    """Whether this file was opened to be read since :func:`note`, under whatever name."""
    with contextlib.suppress(OSError, ValueError):
        return _read is not None and _identity(file) in _read
    return False


@cache
def _audit() -> None:
    sys.addaudithook(_heard)  # there is no way to take it off again


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or _read is None:
        return
    path, _, flags = arguments
    if isinstance(path, str | bytes | os.PathLike) and not flags & _WRITES:
        with contextlib.suppress(OSError, ValueError):
            _read.add(_identity(path))


def _identity(path: str | bytes | os.PathLike[Any]) -> tuple[int, int]:
    found = Path(os.fsdecode(path)).stat()
    return found.st_dev, found.st_ino
