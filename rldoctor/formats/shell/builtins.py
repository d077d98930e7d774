"""The commands that bash carries out itself and that change what later words become: ``set``, ``shift``, ``read``,
``eval``, ``source`` and their kin."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rldoctor.errors import InputError
from rldoctor.formats.shell.arithmetic import assigned, assignment
from rldoctor.formats.shell.grammar import parsed
from rldoctor.formats.shell.quotes import ends_in_single_quotes
from rldoctor.formats.shell.reader import Piece, Script, Variable, Word
from rldoctor.formats.shell.redirects import own_input
from rldoctor.formats.shell.scope import Scope, known
from rldoctor.formats.values import Unresolved
from rldoctor.plan.model import Note

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_CALLS = 12
MAX_FILES = 40
# An expansion that tells as little when it is carried out again.
_UNREAD = re.compile(r"(?s:\$\(.*\)|`.*`)|\"?\$(?:[@*]|\{?(?P<name>[A-Za-z_]\w*)\}?)\"?")
_LEAVING = frozenset({"exit", "return", "break", "continue"})
_FILLING = frozenset({"read", "mapfile", "readarray", "getopts"})


class Builtins(Scope):
    """The built-in commands of a script that is read."""

    script: Script
    calls: list[str]
    folders: list[str]

    def sequence(self, nodes: list[Node]) -> None:
        """Reads statements in their order."""
        raise NotImplementedError

    def note(self, node: Node, text: str, unread: bool = False) -> None:
        """Says something about a place of the script; ``unread`` where the script ends there for its reader."""
        file = self.expander.file or self.script.source.file
        self.script.notes.append(Note(text=text, file=file, line=self.expander.line(node), unread=unread))

    def builtin(self, node: Node, words: list[Word]) -> bool:
        """Carries out a built-in command; False where it is none."""
        name = words[0].value
        if not isinstance(name, str):
            return False
        if name in _LEAVING:
            self.left = name
        elif name == "set":
            self._set(words[1:])
        elif name == "shift":
            self._shift(words[1:])
        elif name in _FILLING:
            self._fill(node, name, words[1:])
        elif name == "printf" and len(words) > 2 and words[1].value == "-v":
            self._fill(node, name, words[2:3])
        elif name in ("cd", "pushd", "popd"):
            self._enter(node, name, words[1:])
        elif name == "let":
            self.read_text(" ; ".join(f"(( {word.text} ))" for word in words[1:]), self.expander.line(node))
        elif name in ("source", "."):
            self._source(node, words[1:])
        elif name == "eval":
            self._eval(node, words[1:])
        elif name in (":", "true", "false"):
            pass
        else:
            return False
        return True

    def compute(self, node: Node) -> None:
        """``((...))``: its assignments, as far as they can be computed."""
        inner = [child for child in node.children if child.is_named]
        found = assignment(self.expander, inner[0]) if len(inner) == 1 else None
        if found is not None:
            self.set(found[0], known(found[1], self.expander.line(node)))
            return
        for name in assigned(self.expander, node):
            why = Unresolved(self.expander.text(node), f"{name} is computed in a way that is not read")
            self.set(name, known(why, self.expander.line(node)))

    def read_text(self, text: str, line: int) -> None:
        """Reads commands that stand in a text, with the variables of this point."""
        if len(self.calls) >= MAX_CALLS:
            return
        raw = text.encode()
        outer, self.expander = self.expander, self.expander.beside(raw, line)
        self.calls.append("eval")
        self.sequence(parsed(raw).root_node.children)
        self.calls.pop()
        outer.variables, outer.positional = self.expander.variables, self.expander.positional
        self.expander = outer

    def _eval(self, node: Node, words: list[Word]) -> None:
        unknown = next((word.value for word in words if isinstance(word.value, Unresolved)), None)
        started = words and any(isinstance(piece.text, str) and piece.text.strip() for piece in words[0].pieces)
        if unknown is not None and not started:
            self.note(node, f"eval: {unknown.why}")
        text = " ".join(self._evaluated(word) if started else word.text for word in words)
        self.read_text(text, self.expander.line(node))

    def _evaluated(self, word: Word) -> str:
        """A word as ``eval`` reads it, in which what is not known is asked for again by its variable."""
        if isinstance(word.value, str):
            return word.value
        parts: list[str] = []
        for piece in word.pieces:
            if isinstance(piece.text, str):
                parts.append(piece.text or " " * piece.boundary)
            else:
                asked = self._asked(piece, piece.text)
                parts.append(f"'\"{asked}\"'" if ends_in_single_quotes("".join(parts)) else asked)
        return "".join(parts)

    def _asked(self, piece: Piece, text: Unresolved) -> str:
        """What stands for an unknown part of a word where it is read once more."""
        variables, named = self.expander.variables, _UNREAD.fullmatch(text.raw)
        if named is not None and named["name"] not in variables:
            return text.raw
        name = next((name for name, held in variables.items() if held.value == text and "[" not in name), None)
        if name is None:
            name = f"unknown_{len(variables)}"
            words = tuple(replace(word, pieces=(piece,), many=piece.many) for word in known(text, piece.line).words)
            self.set(name, Variable(words, piece.line, array=piece.many))
        return f"${{{name}[@]}}" if piece.many else f"${{{name}}}"

    def _set(self, words: list[Word]) -> None:
        sign, named = "", 0  # so many words that follow are names of options that -o asks for
        for index, word in enumerate(words):
            value = word.value
            if isinstance(value, Unresolved):
                self.blur(["@"])
                return
            if named:
                self.all_exported = sign == "-" if value == "allexport" else self.all_exported
                named -= 1
            elif value == "--" or value[:1] not in ("-", "+") or value == "-":
                self.arguments(tuple(words[index + (value in ("--", "-")) :]))
                return
            else:
                sign, named = value[0], value.count("o")
                self.all_exported = sign == "-" if "a" in value[1:] else self.all_exported

    def _shift(self, words: list[Word]) -> None:
        positional = self.expander.positional
        if positional is None:
            return
        count = words[0].text if words else "1"
        if not count.isdecimal() or any(word.open for word in positional[: int(count)]):
            self.blur(["@"])
        elif int(count) <= len(positional):
            self.arguments(positional[int(count) :])

    def _fill(self, node: Node, name: str, words: list[Word]) -> None:
        taken = self._read(node, words) if name == "read" else {}
        for variable, value in taken.items():
            self.set(variable, Variable((value,), value.line))
        if taken:
            return
        array = name in ("mapfile", "readarray") or any(
            word.text.startswith("-") and "a" in word.text for word in words
        )
        for word in words:
            if isinstance(word.value, str) and word.value.isidentifier():
                found = known(Unresolved(word.value, f"{name} fills it"), self.expander.line(node))
                self.set(word.value, found)
                if array:
                    self.blur([word.value])
                    self.set(word.value, Variable(_many(found), found.line, array=True))

    def _read(self, node: Node, words: list[Word]) -> dict[str, Word]:
        """What ``read`` takes from a here-document or a here-string of its own, by variable; empty where it has none,
        or an option, a separator or an unknown part is in the way."""
        given, asked = own_input(self.expander, node), _asked([word.value for word in words])
        blanks = self._separators(node)
        if given is None or asked is None or blanks is None:
            return {}
        if not asked.names:
            asked, blanks = asked._replace(names=["REPLY"]), ""  # the one that is left as it was
        line, last = self.expander.line(node), len(asked.names) - 1
        parts = [given]
        if last or asked.delimiter:
            if any(isinstance(piece.text, Unresolved) for piece in given):
                return {}
            text = "".join(str(piece.text) for piece in given)
            text = text.partition(asked.delimiter)[0] if asked.delimiter else text
            fields = text.split(None, last) if last and blanks else [text]
            fields += [""] * (last + 1 - len(fields))
            parts = [[self.expander.piece(field, line)] for field in fields]
        if not asked.raw and any("\\" in str(piece.text) for part in parts for piece in part):
            return {}
        return {
            name: self.expander.join(_trimmed(part, blanks), "", line, -1, -1)
            for name, part in zip(asked.names, parts, strict=True)
        }

    def _separators(self, node: Node) -> str | None:
        """White space that ``read`` takes off and splits at; None where it is told to split at something else."""
        own = [child for child in node.children if child.type == "variable_assignment"]
        written = next((text[4:] for text in map(self.expander.text, own) if text.startswith("IFS=")), None)
        if written is not None:
            return "" if written in ("", "''", '""') else None
        variable = self.expander.variables.get("IFS")
        return " \t\n" if variable is None else "" if variable.value == "" else None

    def _enter(self, node: Node, name: str, words: list[Word]) -> None:
        """Changes the working folder, from which the names of files count."""
        before = self.folder()
        named = [word for word in words if word.text not in ("--", "-P", "-L")]
        raw = self.expander.text(node)
        where: str | Unresolved = Unresolved(raw, "a folder that is not known")
        if name == "popd":
            where = self.folders.pop() if self.folders and not named else where
        elif len(named) == 1 and isinstance(named[0].value, str) and named[0].value != "-":
            where = posixpath.normpath(posixpath.join(before or "", named[0].value)) if before is not None else where
        if name == "pushd":
            self.folders.append(before or "")
        self.set("PWD", known(where, self.expander.line(node)))

    def folder(self) -> str | None:
        """The working folder as far as the script itself has changed it, empty at its beginning; None where it is not
        known."""
        found = self.expander.variables.get("PWD")
        if found is None or not found.line:
            return ""
        return found.value if isinstance(found.value, str) else None

    def _source(self, node: Node, words: list[Word]) -> None:
        """Reads another file with the variables of this one."""
        name = words[0].value if words else ""
        source = None
        if isinstance(name, str) and self.script.open is not None and self.script.sourced < MAX_FILES:
            # What is opened counts, also where it is then not followed: a file may name another a thousand times.
            self.script.sourced += 1
            try:
                inside = posixpath.join(self.folder() or "", name)
                source = self.script.open(inside) or (self.script.open(name) if inside != name else None)
            except InputError as error:
                self.note(node, f"source {words[0].raw}: {error}")
                self.expander.unread.append(words[0].raw)
                return
        if source is None or len(self.calls) >= MAX_CALLS or source.file in self.calls:
            raw = words[0].raw if words else ""
            self.note(node, f"source {raw}: not followed")
            self.expander.unread.append(raw)
            return
        raw_text = source.text.encode()
        outer = self.expander
        self.expander = outer.beside(raw_text, source.first_line, file=source.file)
        if len(words) > 1:
            self.expander.positional = tuple(words[1:])
        self.calls.append(source.file)
        self.sequence(parsed(raw_text).root_node.children)
        self.calls.pop()
        self.left = self.left if self.left == "exit" else ""
        outer.variables = self.expander.variables
        if len(words) == 1:
            outer.positional = self.expander.positional
        self.expander = outer


class _Asked(NamedTuple):
    """The variables that ``read`` fills, where it stops (empty: at the end), and whether a backslash is a letter."""

    names: list[str]
    delimiter: str
    raw: bool


def _asked(words: list[str | Unresolved]) -> _Asked | None:
    """None for options that are not followed."""
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) < len(words):
        return None
    delimiter, raw = "\n", False
    while texts and texts[0].startswith("-") and texts[0] != "--":
        letters = texts.pop(0)[1:]
        flags, has_delimiter, attached = letters.partition("d")
        if flags.strip("r"):
            return None
        raw = raw or "r" in flags
        if has_delimiter:
            delimiter = (attached or (texts.pop(0) if texts else ""))[:1]
    names = [text for text in texts if text != "--"]
    return _Asked(names, delimiter, raw) if all(map(str.isidentifier, names)) else None


def _trimmed(pieces: list[Piece], blanks: str) -> Iterator[Piece]:
    """The pieces without white space at either end."""
    last = len(pieces) - 1
    for index, piece in enumerate(pieces):
        text = piece.text
        if isinstance(text, str):
            begin = len(text) - len(text.lstrip(blanks)) if index == 0 and blanks else 0
            end = len(text.rstrip(blanks)) if index == last and blanks else len(text)
            piece = piece.part(begin, max(begin, end))
        yield piece


def _many(variable: Variable) -> tuple[Word, ...]:
    word = variable.words[0]
    return (replace(word, many=True, pieces=tuple(replace(piece, many=True) for piece in word.pieces)),)
