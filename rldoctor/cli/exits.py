"""What the process says to its caller when it ends."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from rldoctor.errors import InputError
from rldoctor.model import Outcome, Report, Severity

if TYPE_CHECKING:
    from rldoctor.flow.session import Session

THRESHOLDS = ("error", "warning", "never")


class ExitCode(IntEnum):
    """What the process says to its caller; of a signal that ended it, 128 and the signal's number."""

    OK = 0
    FINDINGS = 1
    CANNOT_JUDGE = 2
    INTERRUPTED = 130


def threshold_of(given: str | None, opened: Session) -> str:
    """The severity from which findings fail a command: the option's, the project's or ``error``."""
    threshold = given or opened.settings.fail_on or "error"
    if threshold not in THRESHOLDS:
        raise InputError(f"unknown --fail-on {threshold!r}; known are {', '.join(THRESHOLDS)}")
    return threshold


def verdict(report: Report, threshold: str, required: set[str]) -> ExitCode:
    """What a report comes to; ``required`` are the codes that must have been judged."""
    failing = {"error": {Severity.ERROR}, "warning": {Severity.ERROR, Severity.WARNING}, "never": set()}[threshold]
    if any(finding.severity in failing for finding in report.findings):
        return ExitCode.FINDINGS
    judged = {r.code for r in report.results if r.outcome in (Outcome.PASS, Outcome.FINDINGS)}
    settled = judged | {r.code for r in report.results if r.outcome is Outcome.NOT_APPLICABLE}
    return ExitCode.OK if judged and required <= settled else ExitCode.CANNOT_JUDGE
