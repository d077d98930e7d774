"""The commands of a shell script with the places where they stand, quoted ones included, for those who edit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from rldoctor.formats.shell.reader import Command, Word, read_shell
from rldoctor.formats.source import Source
from rldoctor.formats.write import CannotEdit, Write

MAX_LAYERS = 5


class Behind(Protocol):
    """What a command starts, once its launchers are taken off: the program's name, or the text that another shell gets
    to read (``bash -c``)."""

    @property
    def entry(self) -> str: ...
    @property
    def text(self) -> Word | None: ...


Unwrap = Callable[[Sequence[Word]], "Behind | None"]


def commands_of(
    raw: bytes, file: str, unwrap: Unwrap, offset: int = 0, inside: str = "", line: int = 1, layer: int = 0
) -> Iterator[Command]:
    script = read_shell(Source(raw.decode(), file, line), None, offset, inside)
    for command in script.commands:
        yield command
        program = unwrap(command.words)
        word = program.text if program is not None else None
        if word is not None and word.content >= 0 and layer < MAX_LAYERS:
            inner, quoted = word.text.encode(), word.raw[:1].strip("$") or inside
            yield from commands_of(inner, file, unwrap, word.content, quoted, word.line, layer + 1)


def command_at(commands: list[Command], write: Write, unwrap: Unwrap) -> Command:
    """The command to which a new option is added: the one that starts or ends around the write's line."""
    around = [c for c in commands if c.start >= 0 and c.line <= write.line <= c.end_line]
    for command in reversed(around):
        program = unwrap(command.words)
        if program is not None and program.entry == write.group:
            return command
    program = unwrap(around[-1].words) if around else None
    if program is not None and program.text is not None:
        raise CannotEdit(f"the command of line {write.line} is in a text whose quotes hide where its words stand")
    if around:
        return around[-1]
    raise CannotEdit(f"the command of line {write.line} does not stand in {write.file} as such")
