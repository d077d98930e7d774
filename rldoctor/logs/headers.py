"""The line that introduces a traceback: which thread or process it was in, or what had been tried."""

from __future__ import annotations

import re

from rldoctor.logs.prefixes import Line

_HEADERS = re.compile(
    r"Exception in thread |Process \S+:$|Exception ignored in|--- Logging error ---|Error in (?:atexit|sys)\.|"
    r"Error executing job|"
    r"Task exception was never|Future exception was never|exception calling callback|Unhandled (?:error|exception)|"
    r"Uncaught exception|Original exception was|Caught \w+ in |Exception in (?:ASGI|callback|worker)|"
    r".*(?:failed|error|exception|Error|Exception|crashed|fatal).{0,160}$"
)


def header_of(before: list[Line], line: Line) -> str:
    """The process's line right before a traceback, where it introduces it."""
    if not before:
        return ""
    last = before[-1]
    same = last.tag == line.tag and last.level == line.level and line.level is not None
    text = last.text.strip()
    return text[:500] if same or _HEADERS.match(text) else ""
