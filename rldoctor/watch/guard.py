"""Judges a run from inside its trainer: tells each finding once, and says when the run is to be ended."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from rldoctor import redact
from rldoctor.model import Finding, Severity
from rldoctor.printable import printable
from rldoctor.report import words
from rldoctor.watch.measured import CODES, Measured

logger = logging.getLogger("rldoctor")
PATIENCE = 20
"""A hard task may well begin with some steps without a reward."""

STOP = "RLDOCTOR_STOP"
"""The variable that sets a guard where no code does: the number of records that an error may last."""

_LOUDNESS = {Severity.ERROR: logging.ERROR, Severity.WARNING: logging.WARNING, Severity.NOTE: logging.INFO}


class RunStoppedError(RuntimeError):
    """Ends a run whose trainer has no other way to be ended."""


class Guard:
    """Judges what a trainer logs, as ``rldoctor triage`` does afterwards. With ``stop`` the run is to be ended once an
    error has lasted for ``patience`` records. ``tell`` is called with every finding."""

    def __init__(
        self,
        stop: bool = False,
        patience: int = PATIENCE,
        codes: Sequence[str] = CODES,
        tell: Callable[[Finding], None] | None = None,
    ) -> None:
        self.stop = stop
        self.patience = patience
        self.findings: list[Finding] = []
        self._tell = tell
        self._measured = Measured(codes)
        self._failed = False
        redact.begin(os.environ)

    def take(self, record: Mapping[str, object], step: int, completions: Iterable[tuple[str, str]] = ()) -> str:
        """Takes what was logged at a step. Why the run is to be ended, or nothing where it may go on. A failure in
        here ends the judging, never the run."""
        if self._failed:
            return ""
        try:
            return self._judge({name: _plain(value) for name, value in record.items()}, step, completions)
        except Exception:
            self._failed = True
            logger.exception("rldoctor failed and judges this run no longer; the run goes on")
            return ""

    def _judge(self, record: Mapping[str, object], step: int, completions: Iterable[tuple[str, str]]) -> str:
        for finding in map(redact.tree, self._measured.add(record, step, completions)):
            self.findings.append(finding)
            logger.log(_LOUDNESS[finding.severity], "%s", _said(finding))
            if self._tell is not None:
                self._tell(finding)
        lasting = self._measured.lasting(self.patience) if self.stop else ()
        return f"rldoctor stops this run: {', '.join(lasting)} for {self.patience} records" if lasting else ""


def by_variables(environ: Mapping[str, str]) -> Guard:
    """The guard that the variables ask for. What cannot be read stops nothing."""
    asked = environ.get(STOP, "").strip()
    if asked.isdecimal() and int(asked) > 0:
        return Guard(stop=True, patience=int(asked))
    if asked not in ("", "0"):
        logger.warning("%s=%s: a number of records is expected; this run is not stopped", STOP, asked)
    return Guard()


def _said(finding: Finding) -> str:
    fixes = "".join(f"\n  fix: {fix.title}" for fix in finding.fixes)
    return printable(f"{words.head(finding)}{fixes}")


def _plain(value: object) -> object:
    """The number in numpy's and torch's scalars."""
    item = getattr(value, "item", None)
    if item is None:
        return value
    try:
        return item()
    except (TypeError, ValueError, RuntimeError):  # more than one element
        return value
