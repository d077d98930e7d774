"""Records that stand in one line of a log: dictionaries, JSON, and what a framework prints in a form of its own."""

from __future__ import annotations

import json
from typing import Any

from rldoctor.frameworks import logged
from rldoctor.frameworks.metrics import pairs
from rldoctor.logs.metrics.names import ANCHORS, translate
from rldoctor.logs.metrics.track import Reading
from rldoctor.logs.metrics.values import flatten, number

# Longest record that is looked at, in characters; frameworks' own lines have a few thousand.
LONGEST = 256 * 1024

# Which records of a log are training steps: transformers adds the epoch, others their position, JSON lines have a step.
_NUMBERED = ("global_step/max_steps", "iteration")


def read(text: str) -> Reading | None:
    """The record in a line without prefixes, or None where there is none."""
    if len(text) > LONGEST:
        return None
    for framework, held in logged().items():
        for line in held.lines:
            if match := line.pattern.search(text):
                values = translate(line.read(match["record"]), framework)
                step = match.groupdict().get("step")
                return Reading(values, step=int(step) if step else None) if values else None
    start = text.find("{")
    if start < 0 and text.startswith("'"):  # whoever copied it lost the brace
        return _dictionary("{" + text)
    return _dictionary(text[start:]) if start >= 0 else None


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

    Some nest the metrics under ``data``, some nest every part of a name."""
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
