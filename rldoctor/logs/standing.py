"""What rows say that a line of a failure is (a cause, a cascade, a wrapper), asked before the run has been judged."""

from __future__ import annotations

import re
from typing import Any, cast

from rldoctor.case import Case
from rldoctor.catalogue.check import Role
from rldoctor.catalogue.signature import Signature
from rldoctor.logs.model import LogEvent, LoggedException, LogRun
from rldoctor.logs.record import RawEvent
from rldoctor.logs.table import Use

# Ray and futures raise these around what failed elsewhere; the exception within says more.
CARRIER = re.compile(r"(?:RayTaskError|RemoteTraceback|RayActorError|ActorDiedError)(?:\(\w+\))?$")
# What of an event only the verdict on its run tells.
_LATER = frozenset(("run", "incident", "versions", "fatal", "count", "ranks", "finished", "outlived", "after_done"))


class _NotJudgedError(Exception):
    """Raised where a condition asks for what is not known before the verdict."""


class _Early(LogEvent):
    """An event of a run that is not judged yet."""

    def __getattribute__(self, name: str) -> Any:
        if name in _LATER:
            raise _NotJudgedError(name)
        return super().__getattribute__(name)


class _Unread:
    """A case that is not there yet."""

    def __getattr__(self, name: str) -> Any:
        raise _NotJudgedError(name)


_NO_CASE, _NO_RUN = cast("Case", _Unread()), cast("LogRun", _Unread())


def _carried(exception: LoggedException | None) -> LoggedException | None:
    """What happened, without what Ray raised around it on the way to the driver."""
    while exception is not None and exception.cause is not None and CARRIER.search(exception.type):
        exception = exception.cause
    return exception


def facts(literal: str, raw: RawEvent, exception: LoggedException | None, source: str) -> dict[str, Any]:
    """What an event has of its line and of the exception that the line belongs to."""
    inner = _carried(exception)
    return {
        "literal": literal,
        "line": raw.line,
        "source": source,
        "number": raw.number,
        "origin": raw.origin,
        "time": raw.time,
        "level": raw.level,
        "exception": inner,
        "carrier": exception if inner is not exception else None,
        "before": raw.before,
        "after": tuple(raw.after),
    }


def roles(use: Use, line: RawEvent, exception: LoggedException | None, source: str) -> set[Role]:
    """The roles of those signatures of a literal that the line, and the exception that it belongs to, are like."""
    event = _Early(**facts(use.literal, line, exception, source), run=_NO_RUN)
    return {signature.role for _, signature in use.signatures if _is_like(signature, event)}


def _is_like(signature: Signature, event: LogEvent) -> bool:
    """Whether a signature's row describes the event; what cannot be asked before the verdict counts as held, and so
    does a function."""
    if any(text in event.text for text in signature.unless):
        return False
    try:
        return signature.row is None or signature.row.describes(_NO_CASE, event)
    except Exception:  # a plugin's condition may fail in any way, and is reported where it is asked again
        return True
