"""Expands shell words: quoting, variables with their defaults, arrays, arithmetic, and the splitting of what is not
quoted; what only running would tell stays unknown."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rldoctor.formats.shell.arithmetic import arithmetic
from rldoctor.formats.shell.braces import braces
from rldoctor.formats.shell.grammar import PLACEHOLDER, parsed
from rldoctor.formats.shell.machine import Machine
from rldoctor.formats.shell.parameter import SET_BY_BASH, kind_of, parameter
from rldoctor.formats.shell.reader import Piece, Variable, Word
from rldoctor.formats.shell.substitution import MAX_TEXT, substituted
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.source import Source

MAX_PIECES = 5000
# Why a word of more parts, or more letters, is not known.
TOO_LONG = "too long to be an option"
_NEWLINE = ord("\n")
_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution"}
)
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ANSI_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_BLANKS = " \t\n"
_SIGN = re.compile(rb"[$`<>]")
_TILDE = re.compile(r"((?:[A-Za-z_]\w*\+?=)?)~(?=/|\Z)")
_TABS = re.compile(r"(?m)^\t+")
_OVERLOOKED = re.compile(r"\$(\d|[A-Za-z_]\w*)")
_BLANK_BEFORE = re.compile(rb"[ \t(=]\\ ")


class Expander:
    """Expands the words of one script against the variables of a scope. ``offset`` and ``inside`` say where the text
    stands in its file when it is itself a quoted word (``bash -c '...'``); ``file`` is named where it is not the script
    that is read but one that it sources. ``positional`` are the arguments, None where they are not known."""

    def __init__(
        self, raw: bytes, first_line: int, offset: int = 0, inside: str = "", file: str = "", script: str = ""
    ) -> None:
        self.raw = raw
        self.first_line = first_line
        # Counted anew for every word, a long script's lines would take the square of its length.
        self.newlines = [at for at, byte in enumerate(raw) if byte == _NEWLINE]
        self.offset = offset
        self.inside = inside
        self.file = file
        self.script = script
        self.variables: dict[str, Variable] = {}
        # Maps (declare -A), whose elements are variables called NAME[KEY], and whether all their keys are known.
        self.maps: dict[str, bool] = {}
        self.positional: tuple[Word, ...] | None = None
        # Names of variables that nothing sets and that a condition or a default asked for.
        self.asked: set[str] = set()
        # Variables that the script made empty because nothing sets them (X=${X:-}).
        self.left_empty: set[str] = set()
        # Files that could not be sourced: what they set is not known.
        self.unread: list[str] = []
        # Opens the files that the script names.
        self.open: Callable[[str], Source | None] | None = None
        # What a function of the script prints, None for what is no function or does more than print.
        self.call: Callable[[Sequence[str]], str | None] = lambda words: None
        self.machine = Machine()

    def beside(
        self, raw: bytes, first_line: int, offset: int = -1, inside: str = "", file: str | None = None
    ) -> Expander:
        """An expander of another text with the same variables and arguments."""
        other = Expander(raw, first_line, offset, inside, self.file if file is None else file, self.script)
        other.variables, other.positional, other.asked = self.variables, self.positional, self.asked
        other.left_empty, other.unread, other.maps = self.left_empty, self.unread, self.maps
        other.open, other.machine, other.call = self.open, self.machine, self.call
        return other

    def text(self, node: Node) -> str:
        return self.raw[self.begin(node) : node.end_byte].decode()

    def begin(self, node: Node) -> int:
        """Where a node really starts: inside quotes, the grammar gives the white space before an expansion to it."""
        start = int(node.start_byte)
        if node.type in _EXPANSIONS or node.type[:1] == "$":
            found = _SIGN.search(self.raw, start, node.end_byte)
            return start if found is None else found.start()
        return start

    def line(self, node: Node) -> int:
        start = self.begin(node)
        return bisect_left(self.newlines, start) + self.first_line

    def span(self, start: int, end: int) -> tuple[int, int]:
        return (start + self.offset, end + self.offset) if self.offset >= 0 else (-1, -1)

    def words(self, node: Node) -> list[Word]:
        """The arguments that a word of the script becomes: usually one, several for arrays and unquoted lists, none
        for an empty expansion."""
        if node.type == "command_name" and len(node.children) == 1:
            node = node.children[0]
        whole = self._whole(node)
        if whole is not None:
            return list(whole)
        text = self.text(node)
        if "{" in text and len(listed := braces(text)) > 1:
            return [word for part in listed for word in self.written(part, self.line(node))]
        pieces = self._bounded(node)
        if len(pieces) > 1 and any(piece.many for piece in pieces):
            return [replace(self.join(pieces, text, self.line(node), -1, -1), many=True)]
        fields = list(self._split(pieces))[:MAX_PIECES]
        if len(fields) == 1:
            start, end = self.span(self.begin(node), node.end_byte)
            return [self.join(fields[0], text, self.line(node), start, end)]
        return [self._field(field) for field in fields]

    def word(self, node: Node) -> Word:
        """The node as exactly one word, as an assignment takes it (no splitting)."""
        start, end = self.span(self.begin(node), node.end_byte)
        return self.join(self._bounded(node), self.text(node), self.line(node), start, end)

    def piece(self, text: str | Unresolved, line: int, span: tuple[int, int] = (-1, -1), **facts: bool) -> Piece:
        return Piece(text, line, *span, file=self.file, **facts)

    def _bounded(self, node: Node) -> list[Piece]:
        """The parts of a word; one unknown part where they are too many or too long, as when a variable doubles
        itself."""
        pieces: list[Piece] = []
        size = 0
        for piece in self._from_start(node):
            pieces.append(piece)
            size += len(piece.text) if isinstance(piece.text, str) else 1
            if len(pieces) > MAX_PIECES or size > MAX_TEXT:
                return [self.piece(Unresolved(self.text(node)[:80], TOO_LONG), self.line(node))]
        return pieces

    def _from_start(self, node: Node) -> Iterator[Piece]:
        """The parts of a word, with a tilde at its beginning replaced by the home folder where that is known."""
        bare = node.type in ("word", "concatenation") and _TILDE.match(self.text(node)) is not None
        if _BLANK_BEFORE.fullmatch(self.raw[max(node.start_byte - 3, 0) : node.start_byte]):
            # The grammar takes an escaped blank at the beginning of a word for no part of it.
            yield self.piece(" ", self.line(node))
        for index, piece in enumerate(self.pieces(node)):
            if bare and index == 0:
                # The tree finds a parent by going down from its root: asked for every word that takes the square.
                argument = node.parent is not None and node.parent.type in ("command", "file_redirect")
                piece = self.at_home(piece, argument)
            yield piece

    def at_home(self, piece: Piece, argument: bool = False) -> Piece:
        """A word's first part with a tilde at its beginning, of an ``argument`` also behind ``name=``, replaced by the
        home folder."""
        home = self.variables.get("HOME")
        found = _TILDE.match(piece.text) if piece.literal and isinstance(piece.text, str) else None
        if found is None or home is None or not isinstance(home.value, str) or (found[1] and not argument):
            return piece
        # What the expansion brings is not split.
        return replace(piece, text=found[1] + home.value + found.string[found.end() :], start=-1, end=-1, literal=False)

    def join(self, pieces: Iterable[Piece], raw: str, line: int, start: int, end: int) -> Word:
        """Pieces as one word; one unknown piece makes its value unknown."""
        pieces = tuple(pieces)
        prefix, unknown = "", None
        for piece in pieces:
            if isinstance(piece.text, Unresolved):
                unknown = piece.text
                break
            prefix += (piece.text or " ") if piece.boundary else piece.text
        value: str | Unresolved = prefix if unknown is None else Unresolved(raw, unknown.why)
        many = len(pieces) == 1 and pieces[0].many
        return Word(value, raw, line, start, end, prefix, self.inside, pieces, many, self.file)

    def pieces(self, node: Node, quoted: bool = False) -> Iterator[Piece]:
        """The parts of a word, left to right."""
        kind = node.type
        if kind in ("concatenation", "command_name"):
            for child in node.children:
                yield from self.pieces(child, quoted)
        elif kind == "string":
            yield from self._string(node)
        elif kind == "translated_string":
            yield from self._string(node.children[-1])
        elif kind == "raw_string":
            span = self.span(node.start_byte + 1, node.end_byte - 1)
            yield self.piece(self.text(node)[1:-1], self.line(node), span, literal=True)
        elif kind == "ansi_c_string":
            yield self.piece(_ANSI_ESCAPE.sub(_ansi, self.text(node)[2:-1]), self.line(node))
        elif kind in _EXPANSIONS:
            yield from self._expansion(node, quoted)
        elif node.type == "array":
            yield self.piece(Unresolved(self.text(node), "an array where one value stands"), self.line(node))
        elif kind == "word" and PLACEHOLDER.search(self.text(node)) is not None:
            for index, part in enumerate(re.split(f"({PLACEHOLDER.pattern})", self.text(node))):
                yield self.piece(Unresolved(part, f"{part} is to be filled in") if index % 2 else part, self.line(node))
        else:
            text = self.text(node)
            plain = text if "\\" not in text else _ESCAPED.sub(lambda m: "" if m[1] == "\n" else m[1], text)
            span = self.span(node.start_byte, node.end_byte) if plain == text else (-1, -1)
            yield self.piece(plain, self.line(node), span, literal=plain == text)

    def computed(self, text: str, line: int) -> str | Unresolved:
        """What ``$((...))`` comes to that stands inside another expansion, where the grammar takes it for a command in
        brackets: ``${X:-$((1024 * 2))}``."""
        raw = f"x=$(( {text[3:-2]} ))".encode()
        node = parsed(raw).root_node.children[0].child_by_field_name("value")
        if node is None or node.has_error or node.type != "arithmetic_expansion":
            return Unresolved(text, "an expansion that is not read")
        return arithmetic(self.beside(raw, line), node)

    def written(self, text: str, line: int) -> list[Word]:
        """The arguments that ``text`` becomes as a word of a command."""
        raw = f"x {text}".encode()
        command = parsed(raw).root_node.children[0]
        if command.has_error or command.type != "command":
            return [self.join([self.piece(Unresolved(text, "braces that are not read"), line)], text, line, -1, -1)]
        inner = self.beside(raw, line)
        found = [word for child in command.children[1:] for word in inner.words(child)]
        return [replace(word, start=-1, end=-1) for word in found]

    def document(self, redirect: Node) -> list[Piece] | None:
        """The parts of what a ``heredoc_redirect`` gives; None where it has no body."""
        named = {child.type: child for child in redirect.children}
        body, end = named.get("heredoc_body"), named.get("heredoc_start")
        if body is None or end is None:
            return None
        # The grammar leaves out the blanks that a document begins with.
        begin = self.raw.find(b"\n", end.end_byte) + 1
        start = body.start_byte if self.raw[begin : body.start_byte].strip() else begin
        if self.text(end)[:1] in "'\"\\":
            text = self.raw[start : body.end_byte].decode()
            line = bisect_left(self.newlines, start) + self.first_line
            pieces = [self.piece(text, line, self.span(start, body.end_byte), literal=True)]
        else:
            pieces = [part for piece in self._parts(body, start, body.end_byte) for part in self._overlooked(piece)]
        if "<<-" not in named:
            return pieces
        return [
            replace(piece, text=_TABS.sub("", piece.text), start=-1, end=-1)
            if piece.literal and isinstance(piece.text, str)
            else piece
            for piece in pieces
        ]

    def _overlooked(self, piece: Piece) -> Iterator[Piece]:
        """A part of a here-document with the variables that the grammar overlooks: $1, and what else begins it."""
        if not piece.literal or isinstance(piece.text, Unresolved):
            yield piece
            return
        done = 0
        for found in _OVERLOOKED.finditer(piece.text):
            yield piece.part(done, found.start())
            variable = self.lookup(found[1])
            value = variable.value if variable is not None else Unresolved(found[0], f"{found[1]} is not set")
            yield self.piece(value, piece.line + piece.text.count("\n", 0, found.start()))
            done = found.end()
        yield piece.part(done, len(piece.text))

    def lookup(self, name: str) -> Variable | None:
        """A variable or positional parameter by name, or None where nothing in the script sets it."""
        if name.isdecimal() and name != "0" and self.positional is not None:
            if any(word.open for word in self.positional[: int(name)]):
                why = Unresolved(f"${name}", f"argument {name} depends on how the script is started")
                return Variable((Word(why, why.raw, 0, pieces=(self.piece(why, 0),)),), 0)
            found = self.positional[int(name) - 1 : int(name)]
            return Variable(found, found[0].line) if found else Variable((), 0)
        found_variable = self.variables.get(name)
        if found_variable is None or (name in self.left_empty and found_variable.value == ""):
            self.asked.add(name)
        return found_variable

    def forget(self, name: str, raw: str) -> None:
        """Makes a variable unknown that an expansion changes on the way."""
        word = Word(Unresolved(raw, f"{name} changes in an expression"), raw, 0)
        self.variables[name] = Variable((word,), 0, exported=name in self.variables and self.variables[name].exported)

    def is_nothing(self, word: Word) -> bool:
        """Whether a word is all of an array that no file sets: no environment has arrays, so it is no argument."""
        found = re.fullmatch(r"\"?\$\{([A-Za-z_]\w*)\[[@*]\]\}\"?", word.raw) if word.many else None
        return found is not None and not self.unread and found[1] not in self.variables

    def sets_itself(self, name: str) -> bool:
        """Whether bash gives the variable a value that only running tells."""
        return name in SET_BY_BASH

    def _whole(self, node: Node) -> tuple[Word, ...] | None:
        """The words of ``"${ARRAY[@]}"`` or ``"$@"`` standing alone, as they are written; None for any other word."""
        quoted = node.type == "string" and len(node.children) == 3
        inner = node.children[1] if quoted else node
        if inner.type not in ("simple_expansion", "expansion") or (
            quoted and (self.begin(inner) > node.start_byte + 1 or inner.end_byte < node.end_byte - 1)
        ):
            return None
        found = re.fullmatch(r"\$(?:[@*]|\{(?:[@*]|([A-Za-z_]\w*)\[[@*]\])\})", self.text(inner))
        if found is None or (quoted and "*" in found[0]):
            return None
        if found[1] is None:
            words = self.positional
        else:
            variable = self.variables.get(found[1])
            words = variable.words if variable is not None else None
        if words is None:
            start, end = self.span(self.begin(node), node.end_byte)
            why = "arguments given at the start" if found[1] is None else f"{found[1]} is not set in this file"
            raw = self.text(node)
            unknown = self.piece(Unresolved(raw, why), self.line(node), many=True)
            return (Word(Unresolved(raw, why), raw, self.line(node), start, end, pieces=(unknown,), many=True),)
        if not quoted and not all(_is_one(word) for word in words):
            return None
        return words

    def _string(self, node: Node) -> Iterator[Piece]:
        start = node.start_byte + (0 if node.type == "heredoc_body" else 1)
        end = node.end_byte - (self.raw[node.end_byte - 1 : node.end_byte] == b'"' and node.end_byte > start)
        if not any(child.type in _EXPANSIONS for child in node.children):
            yield self.piece("", self.line(node), self.span(start, start), literal=True)
        yield from self._parts(node, start, end)

    def _parts(self, node: Node, start: int, end: int) -> Iterator[Piece]:
        # The grammar leaves white space between expansions out of its tree: literal text is what lies between them.
        for child in node.children:
            if child.type in _EXPANSIONS and child.start_byte >= start:
                yield from self._literal(start, self.begin(child))
                yield from self._expansion(child, True)
                start = child.end_byte
        yield from self._literal(start, end)

    def _literal(self, start: int, end: int) -> Iterator[Piece]:
        line = bisect_left(self.newlines, start) + self.first_line
        for part in re.split(rb"(\\\n|\\[$`\"\\])", self.raw[start:end]):
            if part and part != b"\\\n":
                escaped = len(part) == 2 and part[:1] == b"\\" and part[1:] in b'$`"\\'
                text = part[1:].decode() if escaped else part.decode()
                span = (-1, -1) if escaped else self.span(start, start + len(part))
                yield self.piece(text, line, span, literal=not escaped)
            line += part.count(b"\n")
            start += len(part)

    def _expansion(self, node: Node, quoted: bool) -> Iterator[Piece]:
        line, span = self.line(node), self.span(self.begin(node), node.end_byte)
        if node.type == "arithmetic_expansion":
            yield self.piece(arithmetic(self, node), line, span, quoted=quoted)
        elif node.type in ("command_substitution", "process_substitution"):
            text = self.text(node)
            inner = text.startswith("$((") and text.endswith("))")
            value = self.computed(text, line) if inner else substituted(self, node)
            yield self.piece(value, line, span, quoted=quoted)
        else:
            found = parameter(self, node)
            if isinstance(found, tuple):
                if not found and quoted and kind_of(self.text(node)) != "@":
                    yield self.piece("", line)
                yield from (replace(piece, quoted=True) for piece in found) if quoted else found
            elif isinstance(found, Variable):
                yield from self._variable(found, kind_of(self.text(node)), line, span, quoted)
            else:
                many = isinstance(found, Unresolved) and kind_of(self.text(node)) == "@"
                yield self.piece(found, line, span, quoted=quoted, many=many)

    def _variable(
        self, variable: Variable, kind: str, line: int, span: tuple[int, int], quoted: bool
    ) -> Iterator[Piece]:
        """The parts of what a variable holds; ``kind`` is ``@`` or ``*`` where all elements were asked for."""
        if not variable.words and quoted and kind != "@":
            yield self.piece("", line)
        between = self._separator() if kind == "*" else ""
        for index, word in enumerate(variable.words if kind else variable.words[:1]):
            if index and quoted and kind == "*" and word.open:
                pass  # it may be nothing, and then nothing is joined
            elif index and (isinstance(between, Unresolved) or (quoted and kind == "*")):
                yield self.piece(between, line)
            elif index:
                yield self.piece(between, line, quoted=quoted, boundary=True)
            if quoted and isinstance(word.value, str):
                yield self.piece(word.value, line, span)
            elif quoted and not kind and not word.many and word.pieces:
                # What is known of it stays known, and the quotes of its assignment are none of its letters.
                yield from (replace(piece, quoted=True) for piece in word.pieces)
            elif quoted:
                open_ = kind == "@" and word.open
                yield self.piece(word.value, line, span, many=word.many, quoted=not open_)
            else:
                # An unquoted list of options: each of them stands in the variable's own assignment.
                pieces = word.pieces or (self.piece(word.value, line),)
                yield from (replace(piece, quoted=False) for piece in pieces)

    def _separator(self) -> str | Unresolved:
        """What joins all elements to one word: the first letter of ``IFS``."""
        separators = self.variables.get("IFS")
        value = separators.value if separators is not None else _BLANKS
        return value if isinstance(value, Unresolved) else value[:1]

    def _field(self, pieces: list[Piece]) -> Word:
        start, end = pieces[0].start, pieces[-1].end
        first = max(self.offset, 0)
        joined = all(left.end == right.start for left, right in pairwise(pieces))
        here = all(piece.start >= 0 and piece.file == self.file for piece in pieces)
        known = joined and here and self.offset >= 0
        raw = self.raw[start - first : end - first].decode(errors="replace") if known else ""
        word = self.join(pieces, raw, pieces[0].line, start if known else -1, end if known else -1)
        return replace(word, inside=word.inside or '"', file=pieces[0].file)

    def _split(self, pieces: list[Piece]) -> Iterator[list[Piece]]:
        """Cuts what unquoted expansions brought at white space, as the shell does."""
        separators = self.variables.get("IFS")
        blanks = separators.value if separators is not None else _BLANKS
        plain = isinstance(blanks, str) and all(char in _BLANKS for char in blanks)
        cut = re.compile(f"([{blanks}]+)") if plain and blanks else None
        field: list[Piece] = []
        for piece in pieces:
            if piece.boundary:
                if field:
                    yield field
                field = []
            elif piece.quoted or isinstance(piece.text, Unresolved):
                field.append(piece)
            elif not plain and piece.text:
                field.append(replace(piece, text=Unresolved(piece.text, "it is split at a separator of its own")))
            elif cut is None or not cut.search(piece.text):
                if piece.text:
                    field.append(piece)
            else:
                position = 0
                for part in cut.split(piece.text):
                    size = len(part.encode())
                    if part and not cut.fullmatch(part):
                        start = piece.start + position if piece.literal and piece.start >= 0 else -1
                        line = piece.line + piece.text.encode()[:position].count(b"\n")
                        end = start + size if start >= 0 else -1
                        field.append(replace(piece, text=part, line=line, start=start, end=end, quoted=True))
                    elif part and field:
                        yield field
                        field = []
                    position += size
        if field:
            yield field


def _is_one(word: Word) -> bool:
    """Whether a word stays one word where it is not quoted."""
    return isinstance(word.value, str) and word.value != "" and not any(blank in word.value for blank in _BLANKS)


def _ansi(found: re.Match[str]) -> str:
    name = found[1]
    if name[0] in "xuU" and len(name) > 1:
        return chr(min(int(name[1:], 16), 0x10FFFF))
    if name[0] in "01234567":
        return chr(int(name, 8) & 0xFF)
    if name[0] == "c" and len(name) == 2:
        return chr(ord(name[1]) & 0x1F)
    return _ANSI.get(name, name if name in "\\'\"?" else found[0])
