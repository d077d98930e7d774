"""What each engine showed, kept in a folder (``--keep``), so that a run that was interrupted goes on behind it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rldoctor import __version__, bundle
from rldoctor.case import Case
from rldoctor.catalogue.probe import Job, Request
from rldoctor.errors import InputError

Observations = dict[str, dict[str, Any]]


class Kept:
    """The place of one engine's observations. Its name changes with all that they depend on: what the child is told,
    the interpreter, the installed packages, and rldoctor itself."""

    def __init__(self, folder: Path, case: Case, request: Request, job: Job) -> None:
        told = (job.arguments, job.environ, str(request.python), case.packages, __version__)
        # In one order, whatever order the settings of a launch came in.
        encoded = msgspec.json.encode(told, order="deterministic")
        self.file = folder / f"engine-{hashlib.sha256(encoded).hexdigest()[:20]}.json"

    def observations(self) -> Observations | None:
        """What was kept, or None where there is nothing that can be used."""
        if not self.file.is_file():
            return None
        with contextlib.suppress(InputError):
            return {name: dict(jobs) for name, jobs in bundle.load(self.file).observations.items()}
        return None

    def keep(self, observations: Observations) -> None:
        """Writes what an engine showed that came to its end with all its runs; what failed is tried again. Raises
        :class:`OSError` where it cannot be written."""
        if any(job.get("ended") != "done" for jobs in observations.values() for job in jobs.values()):
            return
        # The logs go with the process.
        without = {name: {key: _without_log(job) for key, job in jobs.items()} for name, jobs in observations.items()}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # All or nothing: this run may be interrupted, too.
        unfinished = self.file.with_suffix(f".{os.getpid()}")
        unfinished.write_text(bundle.dump(Case(observations=without)), encoding="utf-8")
        unfinished.replace(self.file)


def _without_log(job: Mapping[str, Any]) -> dict[str, Any]:
    return {**job, "log": None}
