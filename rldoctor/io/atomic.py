"""Writes a file in one step: who reads it, after a full disk or a kill too, finds it as it was or whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(file: Path, data: bytes) -> None:
    """Puts the data in the place of the file's content; its permissions stay, links are followed. What is no regular
    file, or an open one by its number, or stands in a folder that takes no new one, is written to as it is. Raises
    :class:`OSError`."""
    path = file.resolve()
    if file.exists() and (
        not file.is_file() or file.parts[:2] in (("/", "dev"), ("/", "proc")) or not os.access(path.parent, os.W_OK)
    ):
        file.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".rldoctor-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        Path(temporary).chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_mask())
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _mask() -> int:
    """What new files are not to permit; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
