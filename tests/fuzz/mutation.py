"""Makes new inputs out of old ones: pieces put together, lines moved, bytes changed. A seed gives the same inputs
again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

LONGEST = 16 << 10
_JOINTS = ("", "", " ", "\n", "\n", "\r\n", "\t", "=", ": ")


class Maker:
    """Makes inputs from seeds (whole files) and pieces (what such files are made of)."""

    def __init__(self, seeds: Sequence[bytes], pieces: Sequence[str], seed: int) -> None:
        self.random = random.Random(seed)
        self.seeds = list(seeds) or [b""]
        self.pieces = [piece.encode("utf-8", "surrogatepass") for piece in pieces]
        self._steps: tuple[Callable[[bytes], bytes], ...] = (
            self._insert,
            self._insert,
            self._insert,
            self._drop,
            self._double,
            self._move_lines,
            self._splice,
            self._bytes,
            self._cut,
            self._repeat,
        )

    def make(self) -> bytes:
        """One input, of at most :data:`LONGEST` bytes."""
        choose = self.random
        made = self._assembled() if choose.random() < 0.5 else choose.choice(self.seeds)
        for _ in range(choose.choice((0, 1, 1, 2, 3, 6))):
            made = choose.choice(self._steps)(made)
        return made[:LONGEST]

    def _assembled(self) -> bytes:
        choose = self.random
        parts = []
        for _ in range(choose.choice((1, 2, 4, 8, 24))):
            parts += [self._piece(), choose.choice(_JOINTS).encode()]
        return b"".join(parts)

    def _piece(self) -> bytes:
        choose = self.random
        if choose.random() < 0.9:
            return choose.choice(self.pieces)
        return bytes(
            choose.choice((choose.randrange(32, 127), choose.randrange(256))) for _ in range(choose.randrange(9))
        )

    def _at(self, data: bytes) -> int:
        return self.random.randrange(len(data) + 1)

    def _span(self, data: bytes) -> tuple[int, int]:
        start = self._at(data)
        return start, min(len(data), start + self.random.choice((1, 4, 30, 300)))

    def _insert(self, data: bytes) -> bytes:
        at = self._at(data)
        return data[:at] + self._piece() + data[at:]

    def _drop(self, data: bytes) -> bytes:
        start, stop = self._span(data)
        return data[:start] + data[stop:]

    def _double(self, data: bytes) -> bytes:
        start, stop = self._span(data)
        return data[:stop] + data[start:stop] + data[stop:]

    def _move_lines(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        at = self.random.randrange(len(lines))
        taken = lines[at : at + self.random.choice((1, 3, 9))]
        del lines[at : at + len(taken)]
        to = self.random.randrange(len(lines) + 1)
        return b"\n".join([*lines[:to], *taken, *lines[to:]])

    def _splice(self, data: bytes) -> bytes:
        other = self.random.choice(self.seeds)
        return data[: self._at(data)] + other[self._at(other) :]

    def _bytes(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 2, 8)) if changed else 0):
            changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._at(data)]

    def _repeat(self, data: bytes) -> bytes:
        start, stop = self._span(data)
        return data[:start] + data[start:stop] * self.random.choice((5, 40, 200)) + data[stop:]
