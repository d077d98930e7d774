"""The commands of a shell script with the places where they stand, quoted ones included, for those who edit them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rldoctor.formats.shell.reader import Command, read_shell
from rldoctor.formats.source import Files, Source
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.launch.launchers.unwrap import unwrap

MAX_LAYERS = 5
# What a command names is not opened here: only its words count.
_NOWHERE = Path("/nonexistent")


def commands_of(
    raw: bytes, file: str, offset: int = 0, inside: str = "", line: int = 1, layer: int = 0
) -> Iterator[Command]:
    script = read_shell(Source(raw.decode(), file, line), None, offset, inside)
    for command in script.commands:
        yield command
        program = unwrap(command.words, file, Files(base=_NOWHERE))
        word = program.text if program is not None else None
        if word is not None and word.content >= 0 and layer < MAX_LAYERS:
            inner = word.text.encode()
            yield from commands_of(inner, file, word.content, word.raw[:1].strip("$") or inside, word.line, layer + 1)


def command_at(commands: list[Command], write: Write) -> Command:
    """The command to which a new option is added: the one that starts or ends around the write's line."""
    around = [c for c in commands if c.start >= 0 and c.line <= write.line <= c.end_line]
    for command in reversed(around):
        program = unwrap(command.words, write.file, Files(base=_NOWHERE))
        if program is not None and program.entry == write.group:
            return command
    if around:
        return around[-1]
    raise CannotEdit(f"the command of line {write.line} does not stand in {write.file} as such")
