"""What the process says to its caller when it ends."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from rldoctor.errors import InputError
from rldoctor.model import State
from rldoctor.verdict import THRESHOLDS

if TYPE_CHECKING:
    from rldoctor.flow.session import Session


class ExitCode(IntEnum):
    """What the process says to its caller; of a signal that ended it, 128 and the signal's number."""

    OK = 0
    FINDINGS = 1
    CANNOT_JUDGE = 2
    INTERRUPTED = 130


OF_STATE = {
    State.PASSED: ExitCode.OK,
    State.FINDINGS: ExitCode.FINDINGS,
    State.NOT_JUDGED: ExitCode.CANNOT_JUDGE,
}


def threshold_of(given: str | None, opened: Session) -> str:
    """The severity from which findings fail a command: the option's, the project's or ``error``."""
    threshold = given or opened.settings.fail_on or "error"
    if threshold not in THRESHOLDS:
        raise InputError(f"unknown --fail-on {threshold!r}; known are {', '.join(THRESHOLDS)}")
    return threshold
