"""Reads text and whole-number columns of small Parquet files, in which trainers keep sampled completions."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rldoctor.logs.metrics.thrift import Reader
from rldoctor.logs.metrics.wire import DamagedError

# https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
_MAGIC = b"PAR1"
_SCHEMA, _ROW_GROUPS = 2, 4
_REPETITION, _NAME, _CHILDREN = 3, 4, 5
_OPTIONAL, _REPEATED = 1, 2
_COLUMNS, _META = 1, 3
_TYPE, _PATH, _CODEC, _VALUES, _SIZE, _DATA_OFFSET, _DICTIONARY_OFFSET = 1, 3, 4, 5, 7, 9, 11
_PLAIN_CODEC, _SNAPPY, _GZIP = 0, 1, 2
_INT64, _BYTE_ARRAY = 2, 6
_PAGE_TYPE, _RAW_SIZE, _PAGE_SIZE, _DATA_HEADER, _DICTIONARY_HEADER = 1, 2, 3, 5, 7
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_COUNT, _ENCODING = 1, 2
_PLAIN, _DICTIONARIES = 0, (2, 8)
# A file of completions has some hundred rows; a data set is not read.
LARGEST = 4 << 20

Value = str | int | None


def columns(path: Path, names: frozenset[str]) -> dict[str, list[list[Value]]]:
    """The wanted columns: for each row its values, which are several where the column is nested (the parts of all
    messages of a dialogue). Columns in other encodings are left out.

    Raises :class:`DamagedError` for what is no Parquet file, and OSError."""
    if path.stat().st_size > LARGEST:
        raise DamagedError(f"larger than {LARGEST >> 20} MiB")
    data = path.read_bytes()
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise DamagedError("not a Parquet file")
    (size,) = struct.unpack("<I", data[-8:-4])
    try:
        meta = Reader(data[max(0, len(data) - 8 - size) : -8]).struct()
        levels = _levels(meta[_SCHEMA])
        found: dict[str, list[list[Value]]] = {}
        for group in meta[_ROW_GROUPS]:
            parts: dict[str, list[list[Value]]] = {}
            for chunk in group[_COLUMNS]:
                column = chunk[_META]
                name = column[_PATH][0].decode()
                if name in names and (rows := _rows(data, column, *levels[tuple(column[_PATH])])) is not None:
                    # The columns of a nested value (role, content) have the same rows.
                    before = parts.get(name, [[] for _ in rows])
                    parts[name] = [row + more for row, more in zip(before, rows, strict=True)]
            for name, rows in parts.items():
                found.setdefault(name, []).extend(rows)
        return found
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        StopIteration,
        RecursionError,
        struct.error,
        zlib.error,
    ) as error:
        raise DamagedError(f"damaged: {error}") from error


def _levels(schema: list[dict[int, Any]]) -> dict[tuple[bytes, ...], tuple[int, int]]:
    """For each leaf's path the highest definition and repetition level."""
    found: dict[tuple[bytes, ...], tuple[int, int]] = {}

    def walk(index: int, path: tuple[bytes, ...], definition: int, repetition: int) -> int:
        element = schema[index]
        kind = element.get(_REPETITION, 0)
        if index:
            path = (*path, element[_NAME])
            definition += kind in (_OPTIONAL, _REPEATED)
            repetition += kind == _REPEATED
        if not element.get(_CHILDREN):
            found[path] = (definition, repetition)
            return index + 1
        following = index + 1
        for _ in range(element[_CHILDREN]):
            following = walk(following, path, definition, repetition)
        return following

    walk(0, (), 0, 0)
    return found


def _rows(data: bytes, column: dict[int, Any], definition: int, repetition: int) -> list[list[Value]] | None:
    if column[_TYPE] not in (_INT64, _BYTE_ARRAY) or column[_CODEC] not in (_PLAIN_CODEC, _SNAPPY, _GZIP):
        return None
    start = column.get(_DICTIONARY_OFFSET) or column[_DATA_OFFSET]
    reader = Reader(data[: start + column[_SIZE]], start)
    dictionary: list[Value] = []
    rows: list[list[Value]] = []
    seen = 0
    while seen < column[_VALUES]:
        page = reader.struct()
        content = _unpacked(reader.take(page[_PAGE_SIZE]), column[_CODEC], page[_RAW_SIZE])
        if page[_PAGE_TYPE] == _DICTIONARY_PAGE:
            dictionary = list(_plain(Reader(content), column[_TYPE], page[_DICTIONARY_HEADER][_COUNT]))
        elif page[_PAGE_TYPE] == _DATA_PAGE:
            header = page[_DATA_HEADER]
            count = header[_COUNT]
            if not 0 <= count <= LARGEST:
                raise DamagedError("a page with too many values")
            body = Reader(content)
            repeats = _level_run(body, repetition, count)
            defined = _level_run(body, definition, count)
            present = sum(level == definition for level in defined)
            if header[_ENCODING] == _PLAIN:
                values: Iterator[Value] = _plain(body, column[_TYPE], present)
            elif header[_ENCODING] in _DICTIONARIES:
                width = body.take(1)[0]
                values = (dictionary[index] for index in _hybrid(body, width, present))
            else:
                return None
            for again, level in zip(repeats, defined, strict=True):
                if not again:
                    rows.append([])
                rows[-1].append(next(values) if level == definition else None)
            seen += max(count, 1)
        else:
            return None
    return rows


def _plain(reader: Reader, kind: int, count: int) -> Iterator[Value]:
    for _ in range(count):
        if kind == _INT64:
            yield struct.unpack("<q", reader.take(8))[0]
        else:
            yield reader.take(struct.unpack("<I", reader.take(4))[0]).decode(errors="replace")


def _level_run(reader: Reader, highest: int, count: int) -> list[int]:
    if not highest:
        return [0] * count
    (size,) = struct.unpack("<I", reader.take(4))
    return list(_hybrid(Reader(reader.take(size)), highest.bit_length(), count))


def _hybrid(reader: Reader, width: int, count: int) -> Iterator[int]:
    """Parquet's mix of runs of one value and groups of eight packed values."""
    left = count
    while left > 0:
        head = reader.varint()
        if head & 1:
            packed = int.from_bytes(reader.take((head >> 1) * width), "little")
            for index in range(min(left, (head >> 1) * 8)):
                yield packed >> index * width & (1 << width) - 1
            left -= (head >> 1) * 8
        else:
            value = int.from_bytes(reader.take((width + 7) // 8), "little")
            yield from (value for _ in range(min(left, head >> 1)))
            left -= head >> 1
        if not head >> 1:
            raise DamagedError("an empty run")


def _unpacked(content: bytes, codec: int, size: int) -> bytes:
    if not 0 < size <= LARGEST:
        raise DamagedError("a page that is empty or too large")
    if codec == _GZIP:
        return zlib.decompressobj(31).decompress(content, size)
    return _snappy(Reader(content)) if codec == _SNAPPY else content


def _snappy(reader: Reader) -> bytes:
    """https://github.com/google/snappy/blob/main/format_description.txt"""
    size = reader.varint()
    if size > LARGEST:
        raise DamagedError("a page that is too large")
    out = bytearray()
    while len(out) < size:
        tag = reader.take(1)[0]
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                length = int.from_bytes(reader.take(length - 59), "little")
            out += reader.take(length + 1)
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | reader.take(1)[0]
        else:
            length, offset = (tag >> 2) + 1, int.from_bytes(reader.take(2 if tag & 3 == 2 else 4), "little")
        if not 0 < offset <= len(out):
            raise DamagedError("a copy from before the beginning")
        for _ in range(length):
            out.append(out[-offset])
    return bytes(out)
