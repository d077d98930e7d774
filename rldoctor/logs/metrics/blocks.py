"""Records that a framework prints over several lines: EasyR1's YAML, SkyRL's pretty print, NeMo-RL's results."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import Any

from rldoctor.logs.metrics.console import pairs
from rldoctor.logs.metrics.names import translate
from rldoctor.logs.metrics.track import Block, Reading, Taken

_YAML = re.compile(r"( *)([\w.\-/@ ]{1,80}):(?: +(\S.*))?\Z")
_SCALAR = "!!python/object/apply:numpy"
_BASE64 = re.compile(r"\s+([A-Za-z0-9+/]{6,16}={0,2})\Z")
_DETAIL = re.compile(r"\s+(?:- |args:|state:|dtype:)")


class EasyR1Block:
    """``Step N`` and then the metrics as YAML, nested by the parts of their names. A numpy scalar takes a dozen lines,
    of which the last is its bytes.

    https://github.com/hiyouga/EasyR1/blob/main/verl/utils/logger/logger.py"""

    OPENING = re.compile(r"\AStep (\d+)\s*\Z")

    def __init__(self, step: int) -> None:
        self._step = step
        self._path: list[tuple[int, str]] = []
        self._record: dict[str, Any] = {}
        self._pending: str | None = None

    def feed(self, text: str) -> Taken:
        if self._pending is not None and (match := _BASE64.match(text)):
            self._record[self._pending] = _scalar(match.group(1))
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
            self._record[full] = value
        return Taken.YES

    def reading(self) -> Reading | None:
        values = translate(self._record, "verl")
        return Reading(values, step=self._step) if len(values) > 1 else None


def _scalar(text: str) -> float | None:
    try:
        raw = base64.b64decode(text)
    except binascii.Error:
        return None
    kind = {8: "<d", 4: "<f"}.get(len(raw))
    return float(struct.unpack(kind, raw)[0]) if kind else None


class SkyRLBlock:
    """``Step N:`` and then a pretty-printed dictionary with one metric in each line.

    https://github.com/NovaSky-AI/SkyRL/blob/main/skyrl/train/utils/tracking.py"""

    OPENING = re.compile(r"(?:^|\s)Step (\d+): *\Z")

    def __init__(self, step: int) -> None:
        self._step = step
        self._record: dict[str, str] = {}

    def feed(self, text: str) -> Taken:
        found = pairs(text)
        if not found or text[:1] not in "{ ":
            return Taken.ENDED
        self._record.update(found)
        return Taken.LAST if text.rstrip().endswith("}") else Taken.YES

    def reading(self) -> Reading | None:
        values = translate(self._record, "skyrl")
        return Reading(values, step=self._step) if len(values) > 1 else None


class NemoBlock:
    """A ruler with ``Step N/M``, a good deal of other output, and the results as a list with bullets.

    https://github.com/NVIDIA-NeMo/RL/blob/main/nemo_rl/algorithms/grpo.py"""

    OPENING = re.compile(r"={10,} Step (\d+)/\d+ ={10,}")
    _BULLET = re.compile(r"\s*• ([A-Z][\w ]+): (\S+)\s*\Z")

    def __init__(self, step: int) -> None:
        self._step = step
        self._record: dict[str, str] = {}

    def feed(self, text: str) -> Taken:
        if match := self._BULLET.match(text):
            self._record[match.group(1)] = match.group(2)
            return Taken.LAST if match.group(1) == "Total step time" else Taken.YES
        return Taken.ENDED if self.OPENING.search(text) else Taken.NO

    def reading(self) -> Reading | None:
        values = translate(self._record, "nemo-rl")
        return Reading(values, step=self._step) if len(values) > 1 else None


KINDS: tuple[type[EasyR1Block] | type[SkyRLBlock] | type[NemoBlock], ...] = (EasyR1Block, SkyRLBlock, NemoBlock)


def opened(text: str) -> Block | None:
    """The block that ``text`` opens, or None."""
    for kind in KINDS:
        if match := kind.OPENING.search(text):
            return kind(int(match.group(1)))
    return None
