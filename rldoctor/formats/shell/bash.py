"""Bash's own word on a script whose syntax was not understood: it is asked to read it, and runs none of it."""

from __future__ import annotations

import re
import subprocess

_SECONDS = 5
_REFUSED = re.compile(rb"line (\d+): (syntax error near unexpected token `.*'|syntax error: .*)$", re.MULTILINE)
# What is to be filled in (``PARTITION=<partition>``), and a shell of another kind, are not bash's to judge.
_BLANK = re.compile(rb"<[A-Za-z][\w .:/-]*>")
_OTHER_SHELL = re.compile(rb"#!.*\b(?:zsh|fish|ksh|csh|tcsh)\b")


def refused_by_bash(text: bytes) -> tuple[str, int] | None:
    """The syntax error that bash finds in a script, and its line; None where it finds none, or is not here."""
    if _OTHER_SHELL.match(text):
        return None
    try:
        # With ``-n`` it reads commands and runs none; without variables no file is read before.
        said = subprocess.run(
            ["bash", "-O", "extglob", "-n"],
            input=text,
            env={"LC_ALL": "C"},
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = _REFUSED.search(said)
    lines = text.splitlines()
    if found is None or not lines:
        return None
    line = min(int(found[1]), len(lines))  # it may have gone on to the end
    blank = _BLANK.search(lines[line - 1]) is not None
    return None if blank else (found[2].decode(errors="replace"), line)
