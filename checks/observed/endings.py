"""When what a log shows may still count: predicates over how its run ended, for ``when=`` of signatures."""

from __future__ import annotations

from rldoctor.api import Case, LogEvent


def unfinished(case: Case, event: LogEvent) -> bool:
    """Whether the run did not come to its end all the same: what a cluster tries again may succeed."""
    return not event.finished
