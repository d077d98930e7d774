"""Reads the protobuf wire format: the fields of a message as numbers with their raw values."""

from __future__ import annotations

from collections.abc import Iterator

# https://protobuf.dev/programming-guides/encoding/
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class DamagedError(ValueError):
    """The bytes are no message, or end in the middle of one."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field's number and value: an integer for varints, the raw bytes for all other types.

    Raises :class:`DamagedError`."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if kind == BYTES:
            size, position = _varint(message, position)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise DamagedError(f"wire type {kind}")
        if position + size > len(message):
            raise DamagedError("a field runs over the end")
        yield number, message[position : position + size]
        position += size


def signed(value: int) -> int:
    """A varint as the signed 64-bit integer that it encodes."""
    return value - (1 << 64) if value >> 63 else value


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if position >= len(message):
            raise DamagedError("a number runs over the end")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
    raise DamagedError("a number of more than ten bytes")
