"""Takes in what a child says: its output into a log of bounded size, its results from their own pipe."""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from pathlib import Path
from typing import Any

LOG_HEAD = 16 << 20
LOG_END = 2 << 20
TAIL_LINES = 200
TAIL_WIDTH = 500
MAX_LINE = 32 << 20
MAX_RESULTS = 128 << 20
MAX_GARBAGE = 5

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Log:
    """A file that keeps the beginning and the end of a child's output, and says what it left out between them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=0)
        self._room = LOG_HEAD
        self._end: deque[bytes] = deque()
        self._end_size = 0
        self._left_out = 0
        self._recent = b""

    def add(self, data: bytes) -> None:
        self._recent = (self._recent + data)[-TAIL_LINES * TAIL_WIDTH :]
        head, rest = data[: self._room], data[self._room :]
        if head:
            self._room -= len(head)
            with contextlib.suppress(OSError):  # a full disk costs the log, not the run
                self._file.write(head)
        if rest:
            self._end.append(rest)
            self._end_size += len(rest)
        while self._end_size > LOG_END and len(self._end) > 1:
            dropped = len(self._end.popleft())
            self._end_size -= dropped
            self._left_out += dropped

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._left_out:
                self._file.write(f"\n[rldoctor left out {self._left_out} bytes here]\n".encode())
            self._file.writelines(self._end)
        with contextlib.suppress(OSError):
            self._file.close()

    def tail(self) -> tuple[str, ...]:
        """The last lines as a person would see them: of a progress bar only its last state, no colours."""
        text = _ESCAPES.sub("", self._recent.decode("utf-8", errors="replace")).replace("\r\n", "\n")
        lines = [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]
        return tuple(line[:TAIL_WIDTH] for line in lines if line)[-TAIL_LINES:]


class Results:
    """The records that came over a child's pipe, one JSON object per line (see ``children/report.py``).

    A line that is none is kept as garbage and disturbs nothing. ``end`` is the child's own last word, where it had
    one."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None
        self.garbage: list[str] = []
        self._buffer = bytearray()
        self._taken = 0

    def add(self, data: bytes) -> None:
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        for line in lines:
            self._line(bytes(line))
        self._buffer = rest
        if len(rest) > MAX_LINE:
            self._reject(f"a line of more than {MAX_LINE} bytes")
            self._buffer = bytearray()

    def close(self) -> None:
        """Takes what a child that died had begun to write."""
        if self._buffer:
            self._line(bytes(self._buffer))

    def _line(self, line: bytes) -> None:
        self._taken += len(line)
        if self._taken > MAX_RESULTS:
            return self._reject(f"more than {MAX_RESULTS} bytes of results")
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if isinstance(said, dict) and isinstance(said.get("end"), str):
            self.end = said
        elif isinstance(said, dict) and isinstance(said.get("name"), str) and "value" in said:
            self.records[said["name"]] = said["value"]
        else:
            self._reject(line[:200].decode("utf-8", errors="replace"))
        return None

    def _reject(self, what: str) -> None:
        if len(self.garbage) < MAX_GARBAGE and what not in self.garbage:
            self.garbage.append(what)
