"""What is read from the log of a run, beside the event that a log judge gets."""

from __future__ import annotations

from rldoctor.knowledge.job_states import exit_statuses_of, job_states
from rldoctor.logs.calling import called_by
from rldoctor.logs.code_paths import is_installed, is_users, package_of
from rldoctor.logs.model import FailedFirst, Frame, LoggedException, Origin
from rldoctor.logs.nothing import was_none
from rldoctor.logs.services import is_event, is_signed, unsigned
from rldoctor.model import Incident

__all__ = [
    "FailedFirst",
    "Frame",
    "Incident",
    "LoggedException",
    "Origin",
    "called_by",
    "exit_statuses_of",
    "is_event",
    "is_installed",
    "is_signed",
    "is_users",
    "job_states",
    "package_of",
    "unsigned",
    "was_none",
]
