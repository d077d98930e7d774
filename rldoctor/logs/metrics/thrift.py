"""Reads Thrift's compact protocol, in which Parquet writes its metadata, into dictionaries by field number."""

from __future__ import annotations

from typing import Any

from rldoctor.logs.metrics.wire import DamagedError

# https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 16


class Reader:
    """Walks through bytes; ``position`` is where the next value begins. All methods raise :class:`DamagedError`."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The fields of the struct that begins here."""
        if depth > _DEEPEST:
            raise DamagedError("nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self.take(1)[0]:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            found[field] = self._value(head & 15, depth)
        return found

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size < 0 or self.position + size > len(self.data):
            raise DamagedError("a value runs over the end")
        piece = self.data[self.position : self.position + size]
        self.position += size
        return piece

    def varint(self) -> int:
        """An unsigned number in groups of seven bits."""
        value = shift = 0
        while shift < 70:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise DamagedError("a number of more than ten bytes")

    def _zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self.take(self.varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self.take(1)[0]
            count = self.varint() if head >> 4 == 15 else head >> 4
            if count > len(self.data):
                raise DamagedError("a list longer than the file")
            return [self._element(head & 15, depth) for _ in range(count)]
        if kind in (_BYTE, _DOUBLE):
            return self.take(1 if kind == _BYTE else 8)
        raise DamagedError(f"type {kind}")

    def _element(self, kind: int, depth: int) -> Any:
        # In a list a truth value takes a byte of its own.
        return self.take(1)[0] == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
