"""Records around each line, as JSON or in another notation: docker's json-file, Cloud Logging, Loki, journald,
structured loggers, logfmt, Fluent Bit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rldoctor.logs import envelope
from rldoctor.logs.layers.layer import MOST, Strip

# Where records keep the text, the time, the level and the process; the first that is there counts. A dot goes deeper.
# Columns of tables come in small letters.
_TEXT = ("log", "textPayload", "line", "message", "msg", "MESSAGE", "body", "@message", "event.original", "text",
         "_raw", "content", "data", "logentry", "logmessage", "short_message", "event")  # fmt: skip
_TIME = ("time", "timestamp", "ts", "@timestamp", "asctime", "datetime", "receiveTimestamp", "date",
         "__REALTIME_TIMESTAMP", "_time", "tsns", "timegenerated", "timegenerated [utc]")  # fmt: skip
# Not ``severity``: Cloud Logging derives it from the stream, and all of a standard error is ERROR.
_LEVEL = ("level", "levelname", "lvl", "log.level")
_PROCESS = ("kubernetes.pod_name", "resource.labels.pod_name", "labels.pod", "pod", "pod_name", "_HOSTNAME", "hostname",
            "host", "instance", "stream.pod", "podName")  # fmt: skip
# logfmt: words, those at the line's end with a key; a text that has blanks is quoted.
_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')
_PAIR = re.compile(r"(?P<key>[A-Za-z_@][\w.@/-]{0,60})=(?P<value>.*)")
# What Fluent Bit prints of a record: its number, its tag, its time, and a map in Ruby's notation.
_FLUENT = re.compile(r"\[\d{1,9}\] \S{1,300}: \[(?:\[[\d.]{1,40}, \{.{0,200}?\}\]|[\d.]{1,40}), (?P<map>\{.*\})\]\s*$")
_ARROW = re.compile(r'("(?:[^"\\]|\\.)*")=>')
# How far within a record its text may stand.
_DEEPEST = 2
# Besides its text a record has one of these; what trainers log of a step has not.
_MARKS = (*_TIME, *_LEVEL, "severity", "stream", "stream_name", "labels", "_PID", "logName", "podName")


def records(lines: Sequence[bytes]) -> Strip | None:
    """One record a line, as log drivers write them."""
    full = [line for line in lines if line.strip()]
    if not full or not (full[0].lstrip().startswith(b"{") or _record(full[0]) is not None):
        return None
    held = [record for line in full if (record := _record(line)) is not None]
    if len(held) >= max(MOST * len(full), 1):
        # What all records say alike, says nothing of one: a collector's level is none of the program's.
        distinct = [names for names in (_LEVEL, _PROCESS) if len({str(_of(_held(one), names)) for one in held}) > 1]
        return lambda text: _unpacked_lines(text, distinct)
    return None


def _record(raw: bytes) -> dict[str, Any] | None:
    raw = raw.strip().rstrip(b",")
    if raw.startswith(b"{"):
        entry = _object(raw)
    elif b"=>" in raw and (printed := _FLUENT.match(raw.decode("utf-8", "replace"))) is not None:
        entry = _object(_ARROW.sub(r"\1:", printed["map"]))
    elif b'="' in raw:
        entry = _pairs(raw.decode("utf-8", "replace"))
    else:
        return None
    return entry if isinstance(entry, dict) and is_record(entry) else None


def _object(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pairs(text: str) -> dict[str, Any]:
    """The keys and values that a line ends with; who collected it may write something before them."""
    found: dict[str, Any] = {}
    for word in reversed(_WORD.findall(text)):
        pair = _PAIR.fullmatch(word)
        if pair is None:
            break
        found[pair["key"]] = _object(pair["value"]) if pair["value"].startswith('"') else pair["value"]
    return found


def is_record(entry: Mapping[str, Any]) -> bool:
    """Whether an object is the record of a line, and no step's metrics."""
    held = _held(entry)
    measured = "event" in entry and any(isinstance(entry[name], float) for name in entry.keys() - set(_TIME))
    return bool(held) and _of(held, _MARKS) is not None and not measured and not any("step" in each for each in held)


def _held(entry: Mapping[str, Any], depth: int = 0) -> tuple[Mapping[str, Any], ...]:
    """The mapping that has the record's text, and those around it, innermost first: a store's export keeps what it
    collected within what it says of itself."""
    if _text(entry) is not None:
        return (entry,)
    inner = (held for held in entry.values() if isinstance(held, Mapping)) if depth < _DEEPEST else ()
    return next(((*found, entry) for held in inner if (found := _held(held, depth + 1))), ())


def _text(entry: Mapping[str, Any]) -> str | None:
    """The text of a record; Loki's own form has several lines of a stream, each behind its time."""
    text = next((value for name in _TEXT if isinstance(value := _first(entry, (name,)), str)), None)
    values = entry.get("values") if text is None else None
    if isinstance(values, list) and values and all(isinstance(v, list) and len(v) > 1 for v in values):
        lines = [value[1] for value in values]
        return "\n".join(lines) if all(isinstance(line, str) for line in lines) else None
    return text


def _of(held: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    return next((value for each in held if (value := _first(each, names)) is not None), None)


def _unpacked_lines(text: bytes, distinct: Sequence[Sequence[str]]) -> bytes:
    found: list[str] = []
    for raw in text.split(b"\n"):
        entry = _record(raw)
        if entry is not None:
            found += _text_of(entry, distinct)
        else:
            found.append(raw.decode("utf-8", "replace"))
    return "\n".join(found).encode("utf-8", "replace")


def _text_of(entry: Mapping[str, Any], distinct: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a record, each with what the record tells about it."""
    held = _held(entry)
    process = _of(held, _PROCESS) if _PROCESS in distinct else None
    level = _of(held, _LEVEL) if _LEVEL in distinct else None
    reported = envelope.written(
        time=time_of(entry) or "",
        level=level.upper() if isinstance(level, str) else "",
        process=process if isinstance(process, str) else "",
    )
    for line in (_text(held[0]) or "").rstrip("\n").split("\n"):
        yield reported + line


def time_of(entry: Mapping[str, Any]) -> str | None:
    """A record's time as it writes it."""
    time = _of(_held(entry), _TIME)
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
