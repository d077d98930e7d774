"""Reads scalars out of TensorBoard event files, without TensorBoard."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from rldoctor.case import Series
from rldoctor.logs.metrics.names import framework_of, plain_name, translate
from rldoctor.logs.metrics.track import Reading, Track
from rldoctor.logs.metrics.wire import DamagedError, fields, signed

# Record: length (uint64), its CRC, the event, its CRC; the CRCs are not verified, a damaged event does not parse.
# https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/lib/io/record_writer.h
_HEADER = struct.Struct("<QI")
_CRC_BYTES = 4
# Scalars are small; larger events hold texts, images and histograms.
LARGEST_EVENT = 1 << 20

# Field numbers of Event, Summary.Value and TensorProto.
# https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/summary.proto
_EVENT_STEP, _EVENT_SUMMARY = 2, 5
_SUMMARY_VALUE = 1
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR = 1, 2, 8
_TENSOR_TYPE, _TENSOR_CONTENT, _TENSOR_FLOATS, _TENSOR_DOUBLES = 1, 4, 5, 6
_FORMATS = {1: "<f", 2: "<d"}


def read(path: Path) -> dict[str, Series]:
    """The metrics of one event file; what was read up to a damaged or unfinished record counts."""
    framework = framework_of({tag for _, tag, _ in _scalars(path)})
    track = Track(str(path))
    for step, tag, value in _scalars(path):
        if values := translate({tag: value}, framework):
            track.add(Reading(values, step=step))
    return track.series()


def _scalars(path: Path) -> Iterator[tuple[int, str, float]]:
    for event in _events(path):
        step, summaries = 0, []
        try:
            for number, value in fields(event):
                if number == _EVENT_STEP and isinstance(value, int):
                    step = signed(value)
                elif number == _EVENT_SUMMARY and isinstance(value, bytes):
                    summaries.append(value)
            for summary in summaries:
                for number, value in fields(summary):
                    if number == _SUMMARY_VALUE and isinstance(value, bytes):
                        yield from ((step, tag, found) for tag, found in _value(value))
        except DamagedError:
            continue


def _events(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            size, _ = _HEADER.unpack(header)
            if size > LARGEST_EVENT:
                if size > path.stat().st_size:
                    return
                file.seek(size + _CRC_BYTES, 1)
                continue
            event = file.read(size)
            if len(event) < size:
                return
            file.read(_CRC_BYTES)
            yield event


def _value(message: bytes) -> Iterator[tuple[str, float]]:
    tag, scalar = "", None
    for number, value in fields(message):
        if not isinstance(value, bytes):
            continue
        if number == _VALUE_TAG:
            tag = value.decode(errors="replace")
        elif number == _VALUE_SIMPLE and len(value) == 4:
            scalar = struct.unpack("<f", value)[0]
        elif number == _VALUE_TENSOR:
            scalar = _tensor(value)
    if tag and scalar is not None and plain_name(tag):
        yield tag, float(scalar)


def _tensor(message: bytes) -> float | None:
    kind, content = 0, b""
    for number, value in fields(message):
        if number == _TENSOR_TYPE and isinstance(value, int):
            kind = value
        elif number in (_TENSOR_CONTENT, _TENSOR_FLOATS, _TENSOR_DOUBLES) and isinstance(value, bytes):
            content = value
    shape = _FORMATS.get(kind)
    if shape is None or len(content) != struct.calcsize(shape):
        return None
    return float(struct.unpack(shape, content)[0])
