"""What became of batches on an engine that two threads share, or that is used again after an interruption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..exceptions import root_of
from .observed import Job, records, require

Call = Mapping[str, Any]


def explains(job: Job) -> bool:
    """Whether two threads inside one engine are why a run did not come to its end."""
    return records(job).get("turns") is False and "alone" in records(job) and job.get("ended") != "done"


def outcomes(job: Job) -> Iterator[str]:
    """What went wrong in the ``shared_engine`` scenario, a line each."""
    if explains(job):
        how = f"by {job['signal']}" if job.get("signal") else f"(it {job['ended']})"
        yield f"the process did not survive two threads in one engine: ended {how}"
        return
    for call in require(job, "calls"):
        wrong = failure(call)
        if wrong and call["ended"] != "waiting":
            yield f"{call['thread']}: {wrong}"
    for thread, frames in (records(job).get("stuck") or {}).items():
        where = f", last seen in {_short(frames[-1])}" if frames else ""
        yield f"{thread}: never came back from generate{where}"


def untidy(job: Job) -> Iterator[str]:
    """What went wrong after an interruption although everything that was left had been aborted."""
    alone = require(job, "alone")
    for place, call in require(job, "aborted").items():
        wrong = failure(call)
        if wrong is None and not _same_number(call, alone):
            wrong = "an answer of another length"
        if wrong:
            yield f"interrupted {place}, {call['left']} requests aborted, then {wrong}"
    if records(job).get("afterwards") is False:
        yield "in the end the engine's answers are others than at the beginning"


def reused(job: Job) -> Iterator[str]:
    """How the next call went when nothing was aborted, where it went wrong."""
    for place, call in (records(job).get("reused") or {}).items():
        wrong = failure(call)
        if wrong:
            yield f"interrupted {place} {wrong}"


def failure(call: Call) -> str | None:
    """How a call of generate went wrong, or None."""
    if call["ended"] in ("raised", "stuck"):
        root = root_of(call.get("exceptions", ())) or {}
        place = root["frames"][-1] if root.get("frames") else None
        where = f" at {_package(place['file'])}:{place['line']} in {place['function']}" if place else ""
        text = f"{root.get('type')}: {root.get('message')}".rstrip(": ")
        return "no end" if call["ended"] == "stuck" else f"{text}{where}"
    parts = []
    if call["got"] != call["asked"]:
        parts.append(f"{call['got']} outputs for {call['asked']} prompts")
    if call["foreign"]:
        parts.append(f"{call['foreign']} outputs beside prompts that are not theirs")
    return ", ".join(parts) or None


def _same_number(call: Call, alone: list[list[int]]) -> bool:
    return [len(tokens) for tokens in call["token_ids"]] == [len(tokens) for tokens in alone]


def _short(frame: str) -> str:
    file, _, rest = frame.partition(":")
    return f"{_package(file)}:{rest}"


def _package(file: str) -> str:
    return file.rpartition("site-packages/")[2]
