"""Reads what the ``lengths`` scenario saw: which requests an engine took at its limit, and where the trainer's model
failed at the same length."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import NotChecked

from ..exceptions import root_of
from .rollout import Job, failure_text, records, require

Row = Mapping[str, Any]

SIZES = re.compile(r"[Tt]he size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
# torch's words for a position that a table does not have.
BEYOND_TABLE = re.compile(r"index out of range in self|is out of bounds for dimension|index \d+ is out of bounds")
# No statement about lengths: the machine has not enough memory for them.
MEMORY = re.compile(r"out of memory|OutOfMemory|can't allocate memory|not enough memory", re.IGNORECASE)
# What engines say when they refuse a request, by the classes they raise.
REFUSALS = re.compile(r"ValueError|ValidationError")
FITTING = ("short", "to the limit", "last token", "short again")


def engine_side(job: Job) -> Mapping[str, Row]:
    found: Mapping[str, Row] = require(job, "engine_side")
    return found


def overshoots(job: Job) -> Iterator[str]:
    """Answers to requests that fit which do not end where the engine's context does, a line each."""
    limit, rows = require(job, "limit"), engine_side(job)
    for name in ("to the limit", "last token"):
        row = rows.get(name)
        if row is None or row["ended"] != "answered":
            continue
        total = row["prompt_tokens"] + len(row["token_ids"])
        if total != limit or row["finish_reason"] != "length":
            yield (
                f"{name}: a prompt of {row['prompt_tokens']} and {len(row['token_ids'])} tokens end at {total} with "
                f"finish reason {row['finish_reason']}, the limit is {limit}"
            )


def unclean(job: Job) -> Iterator[str]:
    """What prompts that leave no room did instead of being refused, and whether the engine was usable after them. One
    that fills the context to the last token may be answered."""
    rows = engine_side(job)
    for name in ("full prompt", "prompt beyond"):
        row = rows.get(name)
        if row is None:
            continue
        tokens = len(row.get("token_ids", ()))
        if name == "prompt beyond" and row["ended"] == "answered" and tokens:
            yield f"a prompt of {row['prompt_tokens']} tokens is answered with {tokens} tokens"
        root = root_of(row.get("exceptions", ()))
        if root is not None and not REFUSALS.search(root["type"]):
            yield f"a prompt of {row['prompt_tokens']} tokens ends in {root['type']}: {root['message'][:200]}"
    first, again = rows.get("short"), rows.get("short again")
    if first is None or again is None:
        return
    if again["ended"] != "answered":
        root = root_of(again.get("exceptions", ())) or {}
        yield f"after that the engine fails with {root.get('type')}: {str(root.get('message'))[:200]}"
    elif len(again["token_ids"]) != len(first["token_ids"]):
        now, before = len(again["token_ids"]), len(first["token_ids"])
        yield f"after that the engine answers with {now} tokens where it had answered with {before}"


def explains(job: Job) -> bool:
    """Whether an engine failed for good once it was given a prompt that leaves no room."""
    return job.get("ended") == "raised" and records(job).get("asking") == "short again"


def trainer_side(job: Job) -> Mapping[str, Any]:
    """Raises :class:`NotChecked` where the trainer's model could not be run at all."""
    reported: Mapping[str, Any] = require(job, "trainer_side")
    if "unavailable" in reported:
        raise NotChecked(f"the trainer's model could not be run: {reported['unavailable']}")
    first = reported["attempts"][0]
    if first["ended"] != "done":
        root = root_of(first["exceptions"]) or {}
        raise NotChecked(
            f"the trainer's model fails at {first['length']} tokens already, with {root.get('type')}: "
            f"{str(root.get('message'))[:200]}"
        )
    return reported


def failed_passes(reported: Mapping[str, Any]) -> list[Row]:
    """The trainer's passes at lengths that the engine accepts which failed, for whatever reason but memory."""
    failed = [one for one in reported["attempts"] if one["ended"] != "done" and not one["beyond"]]
    return [one for one in failed if not MEMORY.search(" ".join(message_of(one)))]


def message_of(row: Row) -> tuple[str, str]:
    """Type and message of the exception that an attempt began to fail with."""
    root = root_of(row.get("exceptions", ())) or {}
    return str(root.get("type")), str(root.get("message"))


def positions(message: str) -> str | None:
    """The two numbers of a mismatch, as a phrase."""
    sizes = SIZES.search(message)
    return f"{sizes[1]} against {sizes[2]} positions" if sizes else None


def engine_mismatch(job: Job) -> str | None:
    """The line that shows that the engine failed at a length which it accepts, after it had answered at a short one."""
    if job.get("ended") != "raised" or records(job).get("asking") not in FITTING[1:]:
        return None
    lines = failure_text(job).splitlines()
    return next((line for line in lines if SIZES.search(line) or BEYOND_TABLE.search(line)), None)
