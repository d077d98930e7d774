"""Records that stand in one line of a log: dictionaries, JSON, verl's ``step:N - ...`` and OpenRLHF's progress bar."""

from __future__ import annotations

import json
import re
from typing import Any

from rldoctor.logs.metrics.names import ANCHORS, translate
from rldoctor.logs.metrics.track import Reading
from rldoctor.logs.metrics.values import flatten, number

# Longest record that is looked at, in characters; verl's lines have a few thousand.
LONGEST = 256 * 1024

_VERL = re.compile(r"(?:^|\s)step:(\d+) - (\S.*)")
_OPENRLHF = re.compile(r"Global step (\d+): (\{.*)")
_PAIR = re.compile(
    r"""(['"])([\w ./()@:\-]{1,100})\1:\s*"""
    r"""('[^'\n]{0,64}'|"[^"\n]{0,64}"|(?:np\.\w+|tensor|array)\([^)]{0,64}\)|[^\s,}\]]{1,64})"""
)
_EPISODE = re.compile(r"Episode \[\d+/\d+\]:[^\[\]]{0,400}\[([^\[\]]*\bpolicy_loss=[^\[\]]*)\]")
_POSTFIX = re.compile(r"(\w+)=([^,\]\s]+)")
# Which records of a log are training steps: transformers adds the epoch, ms-swift the position, JSON lines have a step.
_NUMBERED = ("global_step/max_steps", "iteration")


def read(text: str) -> Reading | None:
    """The record in a line without prefixes, or None where there is none."""
    if len(text) > LONGEST:
        return None
    if match := _VERL.search(text):
        return _verl(match)
    if match := _OPENRLHF.search(text):
        values = translate(pairs(match.group(2)), "openrlhf")
        return Reading(values, step=int(match.group(1))) if values else None
    if match := _EPISODE.search(text):
        values = translate(dict(_POSTFIX.findall(match.group(1))), "openrlhf")
        return Reading(values) if values else None
    start = text.find("{")
    return _dictionary(text[start:]) if start >= 0 else None


def pairs(text: str) -> dict[str, str]:
    """The quoted names of a printed dictionary with the text of their values, whatever else stands in it."""
    return {name: value for _, name, value in _PAIR.findall(text)}


def _verl(match: re.Match[str]) -> Reading | None:
    record: dict[str, str] = {}
    for part in match.group(2).split(" - "):
        name, colon, value = part.strip().rpartition(":")
        if colon:
            record[name] = value
    values = translate(record, "verl")
    return Reading(values, step=int(match.group(1))) if values else None


def _dictionary(text: str) -> Reading | None:
    if text.startswith('{"'):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return record_reading(record) if isinstance(record, dict) else None
    if not text.startswith("{'"):
        return None
    printed: dict[str, Any] = dict(pairs(text))
    return record_reading(printed) if "epoch" in printed or any(name in printed for name in _NUMBERED) else None


def record_reading(record: dict[str, Any]) -> Reading | None:
    """The reading of one record of a JSON-lines file, a state file or a log; None where it is no training step.

    verl's file logger nests the metrics under ``data``, EasyR1's nests every part of a name."""
    inner = record.get("data")
    flat = flatten(inner if isinstance(inner, dict) else record)
    values = translate(flat)
    if len(values) < 2 or not ANCHORS & values.keys():
        return None
    step = _step({**record, **flat})
    epoch = number(flat.get("epoch", flat.get("train/epoch", "")))
    return Reading(values, step=step, epoch=epoch) if step is not None or epoch is not None else None


def _step(record: dict[str, Any]) -> int | None:
    for name in (*_NUMBERED, "step", "train/global_step", "global_step", "training/global_step", "_step"):
        text = record.get(name)
        if isinstance(text, str):
            text = text.strip("'\"").split("/")[0]
        found = number(text) if text is not None else None
        if found is not None and 0 <= found < 2**53:
            return int(found)
    return None
