"""What tells one model's files from another's without reading all of them: a hash for each file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from rldoctor.facts.deadline import within
from rldoctor.printable import plain

# Of a larger file its length, its beginning, where a checkpoint lists its tensors, and pieces all over it are read.
WHOLE = 32 << 20
PIECES, PIECE = 32, 64 << 10
SECONDS = 20.0
MOST = 2000
# The hub's cache calls a large file by its SHA-256.
_BLOB = re.compile(r"[0-9a-f]{64}")


def of(directory: Path) -> dict[str, str]:
    """Name -> hash of the files of a model, sixteen hexadecimal digits. Empty where the file system does not answer in
    time, or nothing can be read."""
    try:
        return within(SECONDS, lambda: dict(_hashes(directory)))
    except (OSError, TimeoutError):
        return {}


def _hashes(directory: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(directory.iterdir())[:MOST]:
        try:
            if path.is_file():
                yield plain(path.name), _hash(path)[:16]
        except OSError:  # it is said elsewhere which files cannot be read
            continue


def _hash(path: Path) -> str:
    blob = path.resolve().name
    if path.is_symlink() and _BLOB.fullmatch(blob):
        return blob
    found = hashlib.sha256()
    with path.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if size <= WHOLE:
            found.update(opened.read(WHOLE))
        else:
            found.update(str(size).encode())
            for number in range(PIECES):
                opened.seek((size - PIECE) * number // (PIECES - 1))
                found.update(opened.read(PIECE))
    return found.hexdigest()
