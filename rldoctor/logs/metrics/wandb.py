"""Reads the history out of W&B's offline files (``run-ID.wandb``), without wandb."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rldoctor import reading
from rldoctor.case import Series
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

# Field numbers of wandb_internal.proto: Record.history, HistoryRecord.item and .step, HistoryItem.
# https://github.com/wandb/wandb/blob/main/wandb/proto/wandb_internal.proto
_HISTORY = 2
_ITEM, _STEP = 1, 2
_STEP_NUMBER = 1
_KEY, _NESTED_KEY, _VALUE_JSON = 1, 2, 16


def is_wandb(path: Path) -> bool:
    """Whether the file starts as W&B's offline files do. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_IDENT)) == _IDENT


def read(path: Path) -> dict[str, Series]:
    """The metrics of one offline run; what was read up to a damaged or unfinished record counts."""
    framework = framework_of({name for _, row in _history(path) for name in row})
    track = Track(str(path))
    for step, row in _history(path):
        if values := translate(row, framework):
            track.add(Reading(values, step=step))
    return track.series()


def read_summary(path: Path) -> dict[str, Series]:
    """The last values of a run, from ``wandb-summary.json``."""
    try:
        record = json.loads(reading.read(path, LARGEST_SUMMARY))
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


def _history(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as file:
        file.seek(_FILE_HEADER)
        for record in _records(file):
            try:
                for field, value in fields(record):
                    if field == _HISTORY and isinstance(value, bytes):
                        yield _row(value)
            except DamagedError:
                continue


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


def _records(file: BinaryIO) -> Iterator[bytes]:
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
            yield b"".join(parts)
            parts = []
