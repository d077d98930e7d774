"""Turns an exception in a log into the failure that the import checks judge."""

from __future__ import annotations

import re
from dataclasses import replace

from rldoctor.api import Case, Evidence, Finding, LogEvent, Severity
from rldoctor.api.logs import Frame, LoggedException, package_of

from ..exceptions import Link
from .imports import Failure, distribution

_HANDLING = "During handling of the above exception, another exception occurred:"
_CAUSE = "The above exception was the direct cause of the following exception:"
_ABSENT = re.compile(r"No module named '?([\w.]+)'?|No package metadata was found for ([\w.-]+)")
_SHARED_OBJECT = re.compile(r"/[^\s`'\"():]+\.so[.\d]*|[\w./-]+\.so[.\d]*(?=\W|$)")


def link_of(event: LogEvent) -> LoggedException | None:
    """The member of the exception's chain that the line belongs to; the first cause where others repeat it. None for a
    free line and for a code line of a frame."""
    line = event.line.strip()
    for link in event.exception.chain if event.exception else ():
        for member in (link, *link.group):
            if event.literal in f"{member.type}: {member.message}" and _says(member, line):
                return member
    return None


def answered_by_another(event: LogEvent, link: LoggedException, subject: str) -> bool:
    """Whether an exception was only a first attempt: another one came while it was handled, and that one is not about
    ``subject``, or says itself what is absent."""
    chain = event.exception.chain if event.exception else ()
    outer = chain[chain.index(link) + 1 :] if link in chain else ()
    joint = next((text.strip() for text in event.after if text.strip() in (_HANDLING, _CAUSE)), None)
    if not outer or joint != _HANDLING:
        return False
    if any(_ABSENT.search(later.message) for later in outer):
        return True
    return not any("Import" in later.type or subject in later.message for later in outer)


def failure_of(event: LogEvent, case: Case) -> Failure | None:
    """The failure that a line tells of; None for a code line of a traceback. A free line is a failure without
    frames."""
    link = link_of(event)
    if event.exception is not None and link is None:
        return None
    reported = (
        reported_link(link.type, link.message, link.frames) if link else reported_link("", event.line.strip(), ())
    )
    first = next((f["package"] for f in reported["frames"] if f["package"] not in (None, "python")), None)
    return Failure(package=distribution(first, case.packages), ended="raised", links=(reported,), source=event.source)


def reported_link(type_: str, message: str, frames: tuple[Frame, ...]) -> Link:
    """An exception in the form in which a probe records it. What a message says is absent is a ``name``, whatever the
    type of the exception that passes it on."""
    absent = _ABSENT.search(message)
    files = [(match[0], package_of(match[0])) for match in _SHARED_OBJECT.finditer(message)]
    return {
        "type": "ModuleNotFoundError" if absent else type_,
        "message": message,
        "frames": [
            {"file": f.file, "line": f.line, "function": f.function, "package": package_of(f.file, f.function)}
            for f in frames
        ],
        "libraries": [{"file": file, "package": package} for file, package in files if package not in (None, "python")],
        "name": (absent[1] or absent[2]).rstrip(".") if absent else None,
        "link": None,
    }


def weight(event: LogEvent) -> Severity:
    """An error where the line ended something, or nothing else did; else it stands beside what did."""
    root = event.run.root
    return Severity.ERROR if event.fatal or root is None or root.is_cut_off else Severity.WARNING


def as_logged(finding: Finding, event: LogEvent) -> Finding:
    """A finding with the log's line in front of its evidence, as an error where the line ended something."""
    line = event.line.strip()
    others: tuple[Evidence, ...] = tuple(e for e in finding.evidence if e.source != event.source)
    return replace(
        finding,
        severity=weight(event),
        evidence=(event.evidence(line[:500]), *others),
    )


def _says(link: LoggedException, line: str) -> bool:
    """Whether a line is one of an exception's: its last line with the type, or a further one of its message."""
    said = f"{link.type}: {link.message}"
    return any(part.strip() and (part.strip() in line or line in part) for part in said.splitlines())
