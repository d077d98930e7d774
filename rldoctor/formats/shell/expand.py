"""Expands shell words: quoting, variables with their defaults, arrays, arithmetic; what only running would tell stays
unknown."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rldoctor.formats.shell.arithmetic import arithmetic
from rldoctor.formats.shell.parameter import parameter
from rldoctor.formats.shell.reader import Piece, Variable, Word, parser
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_TEXT = 200_000
MAX_PIECES = 5000
_NEWLINE = ord("\n")
_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution"}
)
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "\\": "\\", "'": "'", '"': '"', "e": "\x1b", "0": "\0"}


class Expander:
    """Expands the words of one script against the variables of a scope. ``offset`` and ``inside`` say where the text
    stands in its file when it is itself a quoted word (``bash -c '...'``)."""

    def __init__(self, raw: bytes, first_line: int, offset: int = 0, inside: str = "") -> None:
        self.raw = raw
        self.first_line = first_line
        # Counted anew for every word, a long script's lines would take the square of its length.
        self.newlines = [at for at, byte in enumerate(raw) if byte == _NEWLINE]
        self.offset = offset
        self.inside = inside
        self.variables: dict[str, Variable] = {}
        self.positional: tuple[Word, ...] | None = None

    def text(self, node: Node) -> str:
        return self.raw[node.start_byte : node.end_byte].decode()

    def line(self, node: Node) -> int:
        return int(node.start_point[0]) + self.first_line

    def span(self, start: int, end: int) -> tuple[int, int]:
        return (start + self.offset, end + self.offset) if self.offset >= 0 else (-1, -1)

    def words(self, node: Node) -> list[Word]:
        """The arguments that a word of the script becomes: usually one, several for arrays and unquoted lists."""
        if node.type == "command_name" and len(node.children) == 1:
            node = node.children[0]
        whole = self._whole(node)
        if whole is not None:
            return list(whole)
        fields = list(_split(self._bounded(node)))[:MAX_PIECES]
        if len(fields) == 1 or not fields:
            start, end = self.span(node.start_byte, node.end_byte)
            pieces = fields[0] if fields else [Piece("", self.line(node))]
            if not fields and node.type in ("simple_expansion", "expansion"):
                return []
            return [self.join(pieces, self.text(node), self.line(node), start, end)]
        return [self._field(field) for field in fields]

    def word(self, node: Node) -> Word:
        """The node as exactly one word, as an assignment takes it (no splitting)."""
        start, end = self.span(node.start_byte, node.end_byte)
        return self.join(self._bounded(node), self.text(node), self.line(node), start, end)

    def _bounded(self, node: Node) -> list[Piece]:
        """The parts of a word; one unknown part where they are too many or too long, as when a variable doubles
        itself."""
        pieces: list[Piece] = []
        size = 0
        for piece in self.pieces(node):
            pieces.append(piece)
            size += len(piece.text) if isinstance(piece.text, str) else 1
            if len(pieces) > MAX_PIECES or size > MAX_TEXT:
                return [Piece(Unresolved(self.text(node)[:80], "too long to be an option"), self.line(node))]
        return pieces

    def join(self, pieces: list[Piece], raw: str, line: int, start: int, end: int) -> Word:
        """Pieces as one word; one unknown piece makes its value unknown."""
        prefix, unknown = "", None
        for piece in pieces:
            if isinstance(piece.text, Unresolved):
                unknown = piece.text
                break
            prefix += piece.text
        value: str | Unresolved = prefix if unknown is None else Unresolved(raw, unknown.why)
        return Word(value, raw, line, start, end, prefix, self.inside, tuple(pieces))

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
            start, end = self.span(node.start_byte + 1, node.end_byte - 1)
            yield Piece(self.text(node)[1:-1], self.line(node), start, end, literal=True)
        elif kind == "ansi_c_string":
            body = _ESCAPED.sub(lambda found: _ANSI.get(found[1], found[0]), self.text(node)[2:-1])
            yield Piece(body, self.line(node))
        elif kind in _EXPANSIONS:
            yield from self._expansion(node, quoted)
        elif node.type == "array":
            yield Piece(Unresolved(self.text(node), "an array where one value stands"), self.line(node))
        else:
            text = self.text(node)
            plain = text if "\\" not in text else _ESCAPED.sub(lambda m: "" if m[1] == "\n" else m[1], text)
            start, end = self.span(node.start_byte, node.end_byte) if plain == text else (-1, -1)
            yield Piece(plain, self.line(node), start, end, literal=plain == text)

    def apart(self, text: str, line: int) -> str | Unresolved:
        """The value of a word that is written as ``text``, with the variables of this scope."""
        raw = f"x={text}".encode()
        node = parser().parse(raw).root_node.children[0].child_by_field_name("value")
        inner = Expander(raw, line, -1)
        inner.variables, inner.positional = self.variables, self.positional
        return (
            Unresolved(text, "an expansion that is not read")
            if node is None or node.has_error
            else inner.word(node).value
        )

    def heredoc(self, node: Node) -> str:
        """The body of a here-document with its variables filled in; what is unknown stays as it is written."""
        done: list[str] = []
        for piece in self._parts(node, node.start_byte, node.end_byte):
            done.append(piece.text.raw if isinstance(piece.text, Unresolved) else piece.text)
        return "".join(done)

    def lookup(self, name: str) -> Variable | None:
        """A variable or positional parameter by name, or None where nothing in the script sets it."""
        if name.isdigit() and name != "0" and self.positional is not None:
            found = self.positional[int(name) - 1 : int(name)]
            return Variable(found, found[0].line) if found else Variable((), 0)
        return self.variables.get(name)

    def _whole(self, node: Node) -> tuple[Word, ...] | None:
        """The words of ``"${ARRAY[@]}"``, ``$ARRAY[*]`` or ``"$@"`` standing alone; None for any other word."""
        if node.type == "string" and len(node.children) == 3 and node.children[1].type in _EXPANSIONS:
            return self._whole(node.children[1])
        if node.type == "simple_expansion" and self.text(node) in ("$@", "$*"):
            return self.positional if self.positional is not None else self._later(node)
        if node.type != "expansion":
            return None
        found = re.fullmatch(r"\$\{(@|\*|([A-Za-z_]\w*)\[[@*]\])(:?[-+].*)?\}", self.text(node), re.DOTALL)
        if found is None:
            return None
        if found[2] is None:
            return self.positional if self.positional is not None else self._later(node)
        variable = self.variables.get(found[2])
        if variable is None:
            return () if found[3] else None
        if found[3] and found[3].lstrip(":")[0] == "+":
            return variable.words if found[2] in found[3] else None
        return variable.words

    def _later(self, node: Node) -> tuple[Word, ...]:
        start, end = self.span(node.start_byte, node.end_byte)
        why = Unresolved(self.text(node), "arguments given at the start")
        return (Word(why, self.text(node), self.line(node), start, end, many=True),)

    def _string(self, node: Node) -> Iterator[Piece]:
        start = node.start_byte + (0 if node.type == "heredoc_body" else 1)
        end = node.end_byte - (self.raw[node.end_byte - 1 : node.end_byte] == b'"' and node.end_byte > start)
        if start == end:
            yield Piece("", self.line(node))
        yield from self._parts(node, start, end)

    def _parts(self, node: Node, start: int, end: int) -> Iterator[Piece]:
        # The grammar leaves white space between expansions out of its tree: literal text is what lies between them.
        for child in node.children:
            if child.type in _EXPANSIONS and child.start_byte >= start:
                yield from self._literal(start, child.start_byte)
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
                yield Piece(text, line, *span, literal=not escaped)
            line += part.count(b"\n")
            start += len(part)

    def _expansion(self, node: Node, quoted: bool) -> Iterator[Piece]:
        line = self.line(node)
        start, end = self.span(node.start_byte, node.end_byte)
        if node.type == "arithmetic_expansion":
            yield Piece(arithmetic(self, node), line, start, end, quoted)
            return
        if node.type in ("command_substitution", "process_substitution"):
            text = self.text(node)
            if text in ("$(pwd)", "`pwd`"):
                yield Piece(".", line, start, end, quoted)
            else:
                yield Piece(Unresolved(text, "a command's output"), line, start, end, quoted)
            return
        value = parameter(self, node)
        if isinstance(value, Variable):
            yield from self._variable(value, line, start, end, quoted)
        else:
            yield Piece(value, line, start, end, quoted)

    def _variable(self, variable: Variable, line: int, start: int, end: int, quoted: bool) -> Iterator[Piece]:
        for index, word in enumerate(variable.words):
            if index:
                yield Piece(" ", line, quoted=quoted)
            if quoted:
                yield Piece(word.value, line, start, end)
            else:
                # An unquoted list of options: each of them stands in the variable's own assignment.
                yield from (replace(piece, quoted=False) for piece in word.pieces or (Piece(word.value, line),))

    def _field(self, pieces: list[Piece]) -> Word:
        start, end = pieces[0].start, pieces[-1].end
        first = max(self.offset, 0)
        joined = all(left.end == right.start for left, right in pairwise(pieces))
        known = joined and all(p.start >= 0 for p in pieces) and self.offset >= 0
        raw = self.raw[start - first : end - first].decode(errors="replace") if known else ""
        word = self.join(pieces, raw, pieces[0].line, start if known else -1, end if known else -1)
        return replace(word, inside=word.inside or '"')


def _split(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Cuts what unquoted expansions brought at white space, as the shell does."""
    field: list[Piece] = []
    for piece in pieces:
        if piece.quoted or isinstance(piece.text, Unresolved):
            field.append(piece)
            continue
        if not re.search(r"\s", piece.text):
            if piece.text:
                field.append(piece)
            continue
        position = 0
        for part in re.split(r"(\s+)", piece.text):
            size = len(part.encode())
            if part and not part.isspace():
                start = piece.start + position if piece.literal and piece.start >= 0 else -1
                line = piece.line + piece.text.encode()[:position].count(b"\n")
                field.append(Piece(part, line, start, start + size if start >= 0 else -1, True, piece.literal))
            elif part and field:
                yield field
                field = []
            position += size
    if field:
        yield field
