"""The rest of a command that a comment, or a blank behind a backslash, has cut off: for the shell a command of its
own."""

from __future__ import annotations

import re

from rldoctor.formats.shell.reader import Command
from rldoctor.plan.model import Form, UnknownOption

# An option, or an override with a dotted name: no program is called so. So many lines of comment may cut it off.
_ARGUMENT = re.compile(r"--[A-Za-z]|\+{0,2}\w+(\.\w+)+=")
MOST_COMMENTS = 12


def is_rest(before: Command, command: Command) -> bool:
    """Whether a command is the rest of the one before it: options or overrides, right below, and no program."""
    starts = command.words[0].text if command.words else ""
    return _ARGUMENT.match(starts) is not None and 0 < command.line - before.end_line <= MOST_COMMENTS


def lost(command: Command, file: str) -> UnknownOption:
    """The first option of such a rest, as one that the shell does not hand on."""
    form = Form.OPTION if command.words[0].text.startswith("-") else Form.OVERRIDE
    return UnknownOption(
        key=command.words[0].text.partition("=")[0],
        file=file,
        line=command.line,
        form=form,
        owner="the shell",
        why="the command that it belongs to ends above it, with a comment or a blank behind the backslash",
    )
