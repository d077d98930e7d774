"""Tracebacks as a log prints them, for tests of signatures."""

from __future__ import annotations

from rldoctor.api import Check, Finding
from rldoctor.logs.triage import triage_text


def traceback(error: str, *frames: str, code: str = "raise", lead: str = "") -> str:
    """A traceback that ends in ``error``; ``frames`` are ``file function`` below the installed packages, outermost
    first; ``code`` is the innermost source line, ``lead`` what stands before."""
    shown = ['  File "/home/user/rl/train.py", line 21, in <module>\n    trainer.train()']
    for number, frame in enumerate(frames or ("lib/x.py f",), start=1):
        file, _, function = frame.partition(" ")
        line = code if number == max(1, len(frames)) else "pass_on()"
        shown.append(
            f'  File "/opt/venv/lib/python3.11/site-packages/{file}", line {number}, in {function}\n    {line}'
        )
    return "\n".join([*([lead] if lead else []), "Traceback (most recent call last):", *shown, error, ""])


def found(check: Check, text: str) -> list[Finding]:
    """What the check's signatures see in a log."""
    return list(triage_text(text, [check]).findings)
