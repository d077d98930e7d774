"""Reads the history out of W&B's files (``run-ID.wandb``) without wandb, of a run that goes on, too."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rldoctor.case import Series
from rldoctor.io import untrusted
from rldoctor.logs.metrics.names import framework_of, translate
from rldoctor.logs.metrics.track import Reading, Track
from rldoctor.logs.metrics.values import flatten, number
from rldoctor.logs.metrics.wire import DamagedError, fields, signed

# LevelDB's log format behind a file header of its own: blocks of 32 KiB hold records, each with a CRC, a length and a
# kind (whole, first, middle or last part). https://github.com/google/leveldb/blob/main/doc/log_format.md
_IDENT = b":W&B"
_FILE_HEADER = 7
_BLOCK = 32 * 1024
_RECORD_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# A history record of thousands of metrics is well below this; larger ones are files and tables.
LARGEST_RECORD = 4 << 20
LARGEST_SUMMARY = 16 << 20

# Field numbers of wandb_internal.proto: Record.history, .stats and .exit, HistoryRecord.item and .step, HistoryItem,
# and StatsRecord.item, whose items have the same fields.
# https://github.com/wandb/wandb/blob/main/wandb/proto/wandb_internal.proto
_HISTORY, _STATS, _EXIT = 2, 7, 18
_ITEM, _STEP = 1, 2
_STATS_ITEM = 3
_STEP_NUMBER = 1
_KEY, _NESTED_KEY, _VALUE_JSON = 1, 2, 16
# Of the process' own devices where W&B can tell them apart.
_DEVICE_MEMORY = re.compile(r"gpu\.(?:process\.)?(\d+)\.memoryAllocatedBytes")


def is_wandb(path: Path) -> bool:
    """Whether the file starts as W&B's offline files do. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_IDENT)) == _IDENT


def read(path: Path) -> dict[str, Series]:
    """The metrics of one run; what was read up to a damaged or unfinished record counts."""
    run = Run(path)
    run.poll()
    return run.series()


class Run:
    """The file of a run that goes on. ``memory`` is what its devices last had in use, in bytes by their number;
    ``ended`` says that the run closed the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.memory: dict[int, float] = {}
        self.ended = False
        self._names: set[str] = set()
        self._framework = ""
        self._at = _FILE_HEADER
        self._track = Track(str(path))

    def poll(self) -> bool:
        """Reads the records that came; whether there were any. Raises OSError."""
        came = False
        with self.path.open("rb") as file:
            file.seek(self._at)
            for self._at, record in _records(file):
                came = True
                try:
                    self._take(record)
                except DamagedError:
                    continue
        # Which framework's names they are shows only after some records; then all are read by those.
        if (framework := framework_of(self._names)) != self._framework:
            self._framework = framework
            self._at = _FILE_HEADER
            self._track = Track(str(self.path))
            self.poll()
        return came

    def series(self) -> dict[str, Series]:
        """The metrics so far."""
        return self._track.series()

    def _take(self, record: bytes) -> None:
        for field, value in fields(record):
            if not isinstance(value, bytes):
                continue
            if field == _HISTORY:
                step, row = _row(value)
                self._names |= row.keys()
                if self._framework and (values := translate(row, self._framework)):
                    self._track.add(Reading(values, step=step))
            elif field == _STATS:
                self._measure(value)
            elif field == _EXIT:
                self.ended = True

    def _measure(self, message: bytes) -> None:
        for field, value in fields(message):
            if field == _STATS_ITEM and isinstance(value, bytes):
                name, content = _item(value)
                if (device := _DEVICE_MEMORY.fullmatch(name)) and (size := number(content)) is not None:
                    self.memory[int(device[1])] = size


def read_summary(path: Path) -> dict[str, Series]:
    """The last values of a run, from ``wandb-summary.json``."""
    try:
        record = json.loads(untrusted.read(path, LARGEST_SUMMARY))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(record, dict):
        return {}
    row = flatten(record)
    values = translate(row)
    track = Track(str(path))
    if values:
        track.add(Reading(values, step=_global_step(row, 0)))
    return track.series()


def _row(message: bytes) -> tuple[int, dict[str, Any]]:
    step, row = 0, {}
    for field, value in fields(message):
        if not isinstance(value, bytes):
            continue
        if field == _STEP:
            step = next((signed(v) for n, v in fields(value) if n == _STEP_NUMBER and isinstance(v, int)), 0)
        elif field == _ITEM:
            name, content = _item(value)
            row.update(flatten({name: content}) if isinstance(content, dict) else {name: content})
    return _global_step(row, step), row


def _item(message: bytes) -> tuple[str, Any]:
    name, nested, content = "", [], b"null"
    for field, value in fields(message):
        if isinstance(value, bytes):
            if field == _KEY:
                name = value.decode(errors="replace")
            elif field == _NESTED_KEY:
                nested.append(value.decode(errors="replace"))
            elif field == _VALUE_JSON:
                content = value
    try:
        return name or "/".join(nested), json.loads(content)
    except (ValueError, RecursionError):
        return name, ""


def _global_step(row: dict[str, Any], step: int) -> int:
    # Some trainers log more often than they step and say where they are in a metric.
    found = number(row.get("train/global_step", row.get("_step", "")))
    return int(found) if found is not None and 0 <= found < 2**53 else step


def _records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Whole records, each with the place behind it."""
    parts: list[bytes] = []
    while True:
        left = _BLOCK - file.tell() % _BLOCK
        if left < _RECORD_HEADER.size:
            file.seek(left, 1)
        header = file.read(_RECORD_HEADER.size)
        if len(header) < _RECORD_HEADER.size:
            return
        _, size, kind = _RECORD_HEADER.unpack(header)
        data = file.read(size)
        if len(data) < size:
            return
        if kind in (_FULL, _FIRST):
            parts = [data]
        elif kind in (_MIDDLE, _LAST) and parts:
            if sum(map(len, parts)) + size <= LARGEST_RECORD:
                parts.append(data)
            else:
                parts = []
        elif kind == 0 and size == 0:
            continue  # padding that an unfinished block was filled with
        if kind in (_FULL, _LAST) and parts:
            yield file.tell(), b"".join(parts)
            parts = []
