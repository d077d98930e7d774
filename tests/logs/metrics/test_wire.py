"""The protobuf wire format, whole and damaged."""

from __future__ import annotations

import random

import pytest

from rldoctor.logs.metrics.wire import DamagedError, fields, signed


def test_fields_of_all_types() -> None:
    message = b"\x08\x96\x01" + b"\x12\x03abc" + b"\x1d\x00\x00\x80?" + b"\x21" + bytes(8)
    assert list(fields(message)) == [(1, 150), (2, b"abc"), (3, b"\x00\x00\x80?"), (4, bytes(8))]


def test_negative_numbers() -> None:
    assert signed(2**64 - 1) == -1 and signed(5) == 5


@pytest.mark.parametrize("message", [b"\x08", b"\x12\x09abc", b"\x08" + b"\xff" * 11, b"\x0b", b"\x1d\x00"])
def test_damage_is_named(message: bytes) -> None:
    with pytest.raises(DamagedError):
        list(fields(message))


def test_noise_ends() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        try:
            list(fields(chance.randbytes(chance.randrange(60))))
        except DamagedError:
            continue
