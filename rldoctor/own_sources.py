"""Whether rldoctor's own source files have changed: what it keeps between two commands was made by them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

HOME = Path(__file__).parent


def state(*folders: Path) -> int:
    """A number that another content of the folders' Python files does not have: of their names, sizes and times."""
    found = 0
    for file, size, time in sorted(entry for folder in folders for entry in _files(str(folder))):
        found = zlib.crc32(f"{file}\0{size}\0{time}\0".encode(), found)
    return found


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                seen = entry.stat()
                yield entry.path, seen.st_size, seen.st_mtime_ns
            elif not entry.name.startswith(("_", ".")) and "." not in entry.name and entry.is_dir():
                yield from _files(entry.path)
