"""Reads shell scripts by their grammar: the commands that would run, word by word, with the variables at each; nothing
runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from rldoctor.errors import InputError
from rldoctor.formats.shell.grammar import UnreadError, parsed
from rldoctor.formats.shell.machine import Machine
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved
from rldoctor.plan.model import Note
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Piece:
    """A part of a word: its text, the bytes it stands on (-1 where it stands nowhere), whether it is safe from
    splitting (``quoted``), and whether it stands there letter by letter (``literal``). At a ``boundary`` one
    word ends and the next begins, as between the elements of ``"${ARRAY[@]}"``; its text is what joins them where they
    are made one word, a blank where it has none. ``many`` marks an unknown that
    stands for any number of words."""

    text: str | Unresolved
    line: int
    start: int = -1
    end: int = -1
    quoted: bool = True
    literal: bool = False
    boundary: bool = False
    many: bool = False
    file: str = ""

    def part(self, begin: int, end: int) -> Piece:
        """Letters of a known piece."""
        assert isinstance(self.text, str)
        before, text = self.text[:begin], self.text[begin:end]
        start = self.start + len(before.encode()) if self.start >= 0 else -1
        stop = start + len(text.encode()) if start >= 0 else -1
        return replace(self, text=text, line=self.line + before.count("\n"), start=start, end=stop)


@dataclass(frozen=True)
class Word:
    """One argument after expansion. ``raw`` is its text in the file and ``start``/``end`` its bytes there (-1 where it
    does not stand there as one piece). ``prefix`` is the known text before the first unknown part; ``inside`` names the
    quotes that surround it where it is a part of a quoted text (``bash -c '...'``, ``OPTIONS="..."``). ``many`` marks
    an unknown that stands for any number of arguments (``"$@"``). ``file`` is where it stands, empty for the script
    itself: a sourced file's words keep theirs."""

    value: str | Unresolved
    raw: str
    line: int
    start: int = -1
    end: int = -1
    prefix: str = ""
    inside: str = ""
    pieces: tuple[Piece, ...] = ()
    many: bool = False
    file: str = ""

    @property
    def content(self) -> int:
        """The byte where the value itself starts if it stands in the file letter by letter, else -1."""
        written = [piece for piece in self.pieces if piece.text != ""]
        return written[0].start if len(written) == 1 and written[0].literal else -1

    @property
    def open(self) -> bool:
        """Whether it may turn out to be several words, or none: an unknown that is not in quotes."""
        unknown = [piece for piece in self.pieces if isinstance(piece.text, Unresolved)]
        return self.many or any(piece.many or not piece.quoted for piece in unknown)

    @property
    def veiled(self) -> bool:
        """Whether nothing tells what kind of argument it is: unknown from its beginning, and neither a path by its end
        (``$FOLDER/train.json``) nor anything else that no option looks like."""
        known = "".join(piece.text for piece in self.pieces if isinstance(piece.text, str))
        return isinstance(self.value, Unresolved) and not self.prefix and ("/" not in known or "=" in known)

    @property
    def text(self) -> str:
        """The value, or the raw text where it is not known."""
        return self.raw if isinstance(self.value, Unresolved) else self.value


@dataclass(frozen=True)
class Variable:
    """A shell variable: one word, or several of an array. ``start``/``end`` are the bytes of its assignment."""

    words: tuple[Word, ...]
    line: int
    array: bool = False
    exported: bool = False
    start: int = -1
    end: int = -1

    @property
    def value(self) -> str | Unresolved:
        return self.words[0].value if self.words else ""


@dataclass(frozen=True)
class Command:
    """A simple command that would run: its words, the environment it gets and where it stands (bytes ``start``,
    ``end``). A ``conditional`` one runs only in a case that reading does not tell, or not exactly once. ``folder`` is
    the one to which the script has changed before, as far as that is known. What a ``redirected`` one prints goes
    elsewhere: to a file, or to the standard error."""

    words: tuple[Word, ...]
    environment: Mapping[str, Variable]
    line: int
    end_line: int
    start: int = -1
    end: int = -1
    background: bool = False
    stdin: Source | None = None
    conditional: bool = False
    file: str = ""
    folder: str = ""
    redirected: bool = False


# No program is called so: where one stands as a command, nothing is open that it would close.
_CLOSING = frozenset({"done", "fi", "esac", "}", "then", "do", "else"})


@dataclass
class Script:
    """What a shell script starts. ``files`` are those it writes from here-documents, by the name it gives them;
    ``demands`` the variables without which it ends at once, ``left_out`` those for which conditions ask that nothing
    sets, so that something does not run. ``open`` gives the files that it sources, and raises :class:`InputError` for
    one that is not readable; ``sourced`` counts them. ``machine`` answers what it asks of the one on which it runs."""

    source: Source
    commands: list[Command] = field(default_factory=list)
    files: dict[str, Source] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    demands: list[str] = field(default_factory=list)
    left_out: list[Note] = field(default_factory=list)
    open: Callable[[str], Source | None] | None = None
    sourced: int = 0
    machine: Machine = field(default_factory=Machine)


def read_shell(
    source: Source,
    environment: Mapping[str, str | Unresolved] | None = None,
    offset: int = 0,
    inside: str = "",
    arguments: Sequence[str | Word] | None = None,
    files: Callable[[str], Source | None] | None = None,
    machine: Machine | None = None,
) -> Script:
    """Reads a script; ``environment`` holds the variables of the shell that would start it, also those that it
    has without their value being known, ``arguments`` what it is
    given (None where that is not known). ``offset`` is the byte of the file at which the text begins (-1 where it does
    not stand there letter by letter), ``inside`` the quotes around it. ``files`` opens what the script sources,
    ``machine`` is the one on which it is to run.

    Raises :class:`InputError` naming file and line where quotes or brackets do not close, or it nests too deeply."""
    from rldoctor.formats.shell.run import Runner

    raw = source.text.encode()
    try:
        tree = parsed(raw)
    except UnreadError as error:
        raise InputError(f"{source.file}: {error}") from None
    script = Script(source, open=files, machine=machine or Machine())
    if tree.root_node.has_error:
        _check(tree.root_node, raw, script)
    try:
        Runner(script, raw, environment or {}, offset, inside, arguments).run(tree.root_node)
    except RecursionError:
        raise InputError(f"{source.file}: nested too deeply to be read") from None
    if any(command.words and command.words[0].raw in _CLOSING for command in script.commands):
        _ask_bash(raw, script)
    return script


def _check(root: Node, raw: bytes, script: Script) -> None:
    """Refuses a script that bash would refuse; what only this grammar does not know becomes a note."""
    from rldoctor.formats.shell.quotes import unclosed

    offset = script.source.first_line - 1
    found = unclosed(raw.decode())
    if found is not None:
        what, line = found
        raise InputError(f"{script.source.file}:{line + offset}: {what} is never closed")
    _ask_bash(raw, script)
    for node in _errors(root):
        line = node.start_point[0] + 1 + offset
        script.notes.append(Note(text="shell syntax that was not understood", file=script.source.file, line=line))


def _ask_bash(raw: bytes, script: Script) -> None:
    """Refuses a script that bash itself refuses; of one within another file, or to be filled in, nobody can say."""
    from rldoctor.formats.shell.bash import refused_by_bash

    found = refused_by_bash(raw) if script.source.first_line == 1 else None
    if found is not None:
        what, line = found
        raise InputError(f"{script.source.file}:{line}: bash refuses the script: {what}")


def _errors(root: Node) -> list[Node]:
    found: list[Node] = []
    waiting = [root]
    while waiting and len(found) < 5:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            found.append(node)
        elif node.has_error and node.type != "expansion":
            # Those are read otherwise, or their value is said not to be known.
            waiting.extend(reversed(node.children))
    return found
