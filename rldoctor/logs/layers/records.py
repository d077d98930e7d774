"""JSON records around each line: docker's json-file, Cloud Logging, Loki, journald, structured loggers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rldoctor.logs import envelope
from rldoctor.logs.layers.layer import MOST, Strip

# Where records keep the text, the time, the level and the process; the first that is there counts. A dot goes deeper.
_TEXT = ("log", "textPayload", "jsonPayload.message", "jsonPayload.log", "line", "message", "msg", "MESSAGE", "body",
         "@message", "event.original", "text", "result._raw", "_raw", "content", "data")  # fmt: skip
_TIME = ("time", "timestamp", "ts", "@timestamp", "asctime", "datetime", "receiveTimestamp", "date",
         "__REALTIME_TIMESTAMP", "result._time", "_time", "tsns")  # fmt: skip
# Not ``severity``: Cloud Logging derives it from the stream, and all of a standard error is ERROR.
_LEVEL = ("level", "levelname", "lvl", "log.level")
_PROCESS = ("kubernetes.pod_name", "resource.labels.pod_name", "labels.pod", "pod", "pod_name", "_HOSTNAME", "hostname",
            "host", "instance", "result.host")  # fmt: skip
# Besides its text a record has one of these; what trainers log of a step has not.
_MARKS = (*_TIME, *_LEVEL, "severity", "stream", "stream_name", "labels", "_PID", "logName")


def json_records(lines: Sequence[bytes]) -> Strip | None:
    """One object a line, as log drivers write them."""
    full = [line for line in lines if line.strip()]
    if not full or not full[0].lstrip().startswith(b"{"):
        return None
    held = [record for line in full if (record := _record(line)) is not None]
    if len(held) >= max(MOST * len(full), 1):
        several = len({str(_first(record, _PROCESS)) for record in held}) > 1
        return lambda text: _unpacked_lines(text, several)
    return None


def _record(raw: bytes) -> dict[str, Any] | None:
    raw = raw.strip().rstrip(b",")
    if not raw.startswith(b"{"):
        return None
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and is_record(entry) else None


def is_record(entry: Mapping[str, Any]) -> bool:
    """Whether an object is the record of a line, and no step's metrics."""
    return isinstance(_first(entry, _TEXT), str) and _first(entry, _MARKS) is not None and "step" not in entry


def _unpacked_lines(text: bytes, several: bool) -> bytes:
    found: list[str] = []
    for raw in text.split(b"\n"):
        entry = _record(raw)
        if entry is not None:
            found += _text_of(entry, several)
        else:
            found.append(raw.decode("utf-8", "replace"))
    return "\n".join(found).encode("utf-8", "replace")


def _text_of(entry: Mapping[str, Any], several: bool) -> Iterator[str]:
    """The lines of a record, each with what the record tells about it."""
    process = _first(entry, _PROCESS) if several else None
    stream = entry.get("stream")
    if several and process is None and isinstance(stream, Mapping):
        process = stream.get("pod")
    level = _first(entry, _LEVEL)
    reported = envelope.written(
        time=time_of(entry) or "",
        level=level.upper() if isinstance(level, str) else "",
        process=process if isinstance(process, str) else "",
    )
    for line in str(_first(entry, _TEXT)).rstrip("\n").split("\n"):
        yield reported + line


def time_of(entry: Mapping[str, Any]) -> str | None:
    """A record's time as it writes it."""
    time = _first(entry, _TIME)
    return time if isinstance(time, str) else None


def _first(entry: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        held: Any = entry.get(name)
        if held is None and "." in name:
            held = entry
            for part in name.split("."):
                held = held.get(part) if isinstance(held, Mapping) else None
        if held is not None:
            return held
    return None
