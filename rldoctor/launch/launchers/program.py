"""A program while launchers are taken off it, and what every launcher needs: its own options, the script behind
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.native import Native
from rldoctor.formats.shell.arguments import arguments
from rldoctor.formats.shell.reader import Word
from rldoctor.formats.source import Files, Source
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.processes import launcher_setting
from rldoctor.launch.launchers.tables import FLAGS
from rldoctor.plan.model import Form, RefusedValue, Setting
from rldoctor.records import dataclass


@dataclass
class Program:
    """What runs once all launchers are taken off. ``text`` holds a shell text to be read in place of it (``bash
    -c``); ``shell`` says that ``script`` is one of a shell, ``reads`` that a shell reads its input (``bash -s``);
    ``refused`` are values that a launcher does not take; ``where`` names the machines and pods that the command is
    handed to, None for one that only the run tells; ``own_ports`` says that it is in a container whose ports are its
    own."""

    entry: str
    words: tuple[Word, ...]
    script: str | None = None
    variables: dict[str, Native] = field(default_factory=dict)
    process: dict[str, Setting] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: list[RefusedValue] = field(default_factory=list)
    text: Word | None = None
    shell: bool = False
    reads: bool = False
    python: bool = False
    where: tuple[str | None, ...] = ()
    own_ports: bool = False


def module(program: Program, words: Sequence[Word]) -> bool:
    name = words[0].text
    inner = {
        "torch.distributed.run": "torchrun",
        "torch.distributed.launch": "torchrun",
        "accelerate.commands.launch": "accelerate-launch",
        "deepspeed.launcher.runner": "deepspeed",
    }.get(name)
    if inner is not None:
        program.words = (replace(words[0], value=inner), *words[1:])
        return True
    program.entry, program.words, program.python = name, tuple(words[1:]), True
    return False


def script(program: Program) -> bool:
    if not program.words:
        return False
    program.script = program.words[0].text
    program.entry, program.words, program.python = program.script, program.words[1:], True
    return False


def opened(program: Program, name: object, files: Files, absent: str | None = None) -> Source | None:
    """A file that an option of a launcher names; None where it is not here, which a note says as ``absent``, and where
    it cannot be read, which a note says, too."""
    try:
        source = files.open(name) if isinstance(name, str) else None
    except InputError as error:
        program.notes.append(str(error))
        return None
    if source is None and absent is not None:
        program.notes.append(absent)
    return source


def started(program: Program, words: Sequence[Word], table: dict[str, str], file: str, launcher: str) -> bool:
    """Takes a process launcher's own options; what follows is a script or, after ``-m``, a module."""
    own, rest = until_script(words)
    given = take(program, table, own, file, launcher)
    program.words = tuple(rest)
    if not rest:
        return False
    if "m" in given or "module" in given:
        return module(program, rest)
    if "no_python" in given:
        return True
    name = PurePosixPath(rest[0].text).name
    if name.endswith(".py") or "/" in rest[0].text or not isinstance(rest[0].value, str):
        return script(program)
    return True


def until_script(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """Splits a launcher's words before the script: the first word that is neither an option nor an option's value."""
    index = 0
    while index < len(words):
        text = words[index].text if isinstance(words[index].value, str) else words[index].prefix or words[index].raw
        if text == "--":
            return list(words[:index]), list(words[index + 1 :])
        if not text.startswith("-"):
            # A bare unknown ($LAUNCH_ARGS) may hold options; the script comes later. ($HERE/train.py is the script.)
            unknown = isinstance(words[index].value, Unresolved) and not words[index].prefix
            if unknown and index + 1 < len(words) and not words[index].raw.strip("\"'").endswith(".py"):
                index += 1
                continue
            return list(words[:index]), list(words[index:])
        key = text.lstrip("-").replace("-", "_")
        index += 1 if "=" in text or key in FLAGS else 2
    return list(words), []


def take(
    program: Program, table: dict[str, str], words: Sequence[Word], file: str, launcher: str | None = None
) -> dict[str, Native]:
    given = {native.key: native for native in arguments(words, file, flags=FLAGS).natives}
    for key, native in given.items():
        if key in table:
            program.process[table[key]] = launcher_setting(table[key], native)
    if launcher is not None:
        line = words[0].line if words else None
        program.process["process.launcher"] = Setting(value=launcher, file=file or None, line=line, key=launcher)
    return given


def variable(program: Program, word: Word, file: str) -> None:
    name, sep, text = (word.value if isinstance(word.value, str) else word.prefix).partition("=")
    if not sep:
        return
    value: Any = Unresolved(word.raw, word.value.why) if isinstance(word.value, Unresolved) else text
    program.variables[name] = Native(
        key=name, spelled=name, value=value, file=file, line=word.line, form=Form.VARIABLE, raw=word.raw
    )
