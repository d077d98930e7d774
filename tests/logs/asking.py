"""Asks one check about a log: what fires, and what has to stay quiet around it."""

from __future__ import annotations

import json

from rldoctor.api import Check, Finding
from rldoctor.logs.triage import triage_text

from .excerpts import HEALTHY


def finding(check: Check, text: str) -> Finding:
    """The check's only finding in a log; the same text shown as a completion in a healthy run has to give none."""
    assert findings(check, shown(text)) == []
    (only,) = findings(check, text)
    return only


def findings(check: Check, text: str) -> list[Finding]:
    """All that the check finds in a log."""
    return list(triage_text(text, [check]).findings)


def shown(text: str) -> str:
    """A healthy log in which a sample quotes the text."""
    lines = HEALTHY.splitlines(keepends=True)
    return "".join([*lines[:3], json.dumps({"step": 1, "response": text}) + "\n", *lines[3:]])


def raised(kind: str, message: str, *frames: str, code: str = "step()") -> str:
    """A traceback that nobody caught; ``frames`` are ``file function``, outermost first."""
    places = ["/home/user/rl/train.py <module>", *frames]
    lines = ["Traceback (most recent call last):"]
    for place in places:
        file, function = place.split()
        lines += [f'  File "{file}", line 7, in {function}', f"    {code}"]
    return "\n".join([*lines, f"{kind}: {message}" if message else kind]) + "\n"
