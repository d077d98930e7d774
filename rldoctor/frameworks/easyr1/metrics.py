"""EasyR1 prints verl's names as YAML below ``Step N``, nested by their parts."""

from __future__ import annotations

import base64
import binascii
import re
import struct

from rldoctor.frameworks.metrics import Block, Metrics, Taken

_YAML = re.compile(r"( *)([\w.\-/@ ]{1,80}):(?: +(\S.*))?\Z")
_SCALAR = "!!python/object/apply:numpy"
_BASE64 = re.compile(r"\s+([A-Za-z0-9+/]{6,16}={0,2})\Z")
_DETAIL = re.compile(r"\s+(?:- |args:|state:|dtype:)")


class Step(Block):
    """A numpy scalar takes a dozen lines, of which the last is its bytes (verl/utils/logger/logger.py)."""

    OPENING = re.compile(r"\AStep (\d+)\s*\Z")

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self._path: list[tuple[int, str]] = []
        self._pending: str | None = None

    def feed(self, text: str) -> Taken:
        if self._pending is not None and (match := _BASE64.match(text)):
            self.record[self._pending] = _scalar(match.group(1))
            self._pending = None
            return Taken.YES
        if self._pending is not None and _DETAIL.match(text):
            return Taken.YES
        match = _YAML.match(text.rstrip())
        if match is None:
            return Taken.ENDED
        indent, name, value = len(match.group(1)), match.group(2), match.group(3)
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()
        self._path.append((indent, name))
        full = "/".join(part for _, part in self._path)
        self._pending = full if value and value.startswith(_SCALAR) else None
        if value and self._pending is None:
            self.record[full] = value
        return Taken.YES


def _scalar(text: str) -> float | None:
    try:
        raw = base64.b64decode(text)
    except binascii.Error:
        return None
    kind = {8: "<d", 4: "<f"}.get(len(raw))
    return float(struct.unpack(kind, raw)[0]) if kind else None


METRICS = Metrics(
    source="https://github.com/hiyouga/EasyR1/blob/main/verl/trainer/metrics.py",
    like="verl",
    marks=r"Step \d",
    blocks=(Step,),
)
