"""A file that grows, read from where it was left; rotated, cut or written anew it is read from its beginning."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from rldoctor.errors import InputError
from rldoctor.logs.sources import BLOCK
from rldoctor.records import dataclass

# A line that is still being written is waited for, but not for ever.
LONGEST_LINE = 4 * BLOCK


@dataclass(frozen=True)
class Piece:
    """New text, up to a line's end; ``anew`` says that it is the beginning of another file of that name."""

    data: bytes
    anew: bool = False


class Follower:
    """Follows a path. Whoever rotates moves the file away and makes another, or cuts it to nothing."""

    def __init__(self, path: Path) -> None:
        """Raises :class:`InputError` for what cannot be followed; a file that is not there yet can."""
        self.path = path
        self._file: IO[bytes] | None = None
        self._held = b""
        self._anew = False
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file, so it cannot be followed")

    def poll(self) -> list[Piece]:
        """What came since the last call. Raises :class:`InputError` where the file cannot be read."""
        try:
            pieces = self._read()
            while self._replaced():
                pieces += self._rest()
                self._open()
                pieces += self._read()
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or error}") from None
        return pieces

    def rest(self) -> list[Piece]:
        """What is left when no more will come: the last line, though nothing ends it."""
        return [*self.poll(), *self._rest()]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        self._anew = self._anew or self._file is not None
        self.close()
        self._held = b""
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:  # between the two steps of a rotation
            self._file = None

    def _replaced(self) -> bool:
        """Whether the path names another file than the one that is open, or that was cut."""
        try:
            named = self.path.stat()
        except FileNotFoundError:
            return False
        if self._file is None:
            return stat.S_ISREG(named.st_mode)
        held = os.fstat(self._file.fileno())
        return (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino) or named.st_size < self._file.tell()

    def _read(self) -> list[Piece]:
        pieces: list[Piece] = []
        if self._file is not None and os.fstat(self._file.fileno()).st_size < self._file.tell():
            return pieces
        while self._file is not None and (data := self._file.read(BLOCK)):
            self._held += data
            cut = self._held.rfind(b"\n") + 1
            if not cut and len(self._held) > LONGEST_LINE:
                cut = len(self._held)
            pieces += self._cut(cut)
        return pieces

    def _rest(self) -> list[Piece]:
        return self._cut(len(self._held))

    def _cut(self, end: int) -> list[Piece]:
        if not end:
            return []
        piece = Piece(self._held[:end], self._anew)
        self._held, self._anew = self._held[end:], False
        return [piece]
