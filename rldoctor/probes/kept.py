"""The folders of this process's probes, each with the log of one child: they go when the process ends, but for those
that something refers to."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rldoctor import redact
from rldoctor.model import Report

# Characters of a log that are searched for secrets at a time.
_AT_ONCE = 1 << 20
# Those that are to go, by their names, with the process that made them: a fork of it removes nothing.
_going: dict[str, tuple[Path, int]] = {}


def new_folder(name: str) -> Path:
    """A new folder for a child of this name. Raises :class:`OSError` where there is no room for one."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:40]
    folder = Path(tempfile.mkdtemp(prefix=f"rldoctor-{plain}-"))
    _going[folder.name] = (folder, os.getpid())
    return folder


def keep_logs(observations: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Keeps the logs of jobs that did not come to their end, and those that the report names. Returns the observations
    without the names of the others."""
    failed = [job for jobs in observations.values() for job in jobs.values() if job.get("ended") != "done"]
    told = msgspec.json.encode((failed, report))
    for name in [name for name in _going if name.encode() in told]:
        folder, _ = _going.pop(name)
        for log in folder.glob("log*"):
            _redact(log)
    return {name: {key: _settled(job) for key, job in jobs.items()} for name, jobs in observations.items()}


def _redact(log: Path) -> None:
    """Takes the secrets out of a log that stays."""
    with contextlib.suppress(OSError):
        with log.open(encoding="utf-8", errors="surrogateescape", newline="") as opened:
            clean = [redact.text("".join(lines)) for lines in iter(lambda: opened.readlines(_AT_ONCE), [])]
        log.write_text("".join(clean), encoding="utf-8", errors="surrogateescape", newline="")


def _settled(job: Mapping[str, Any]) -> Mapping[str, Any]:
    goes = job.get("log") is not None and Path(job["log"]).parent.name in _going
    return {**job, "log": None} if goes else job


@atexit.register
def _remove() -> None:
    for folder, maker in _going.values():
        if maker == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
