"""The variables of a shell script while it is read: assignments, exports, and what alternatives leave behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rldoctor.formats.shell.expand import MAX_PIECES, TOO_LONG, Expander
from rldoctor.formats.shell.phrases import without_phrase, without_secret
from rldoctor.formats.shell.reader import Piece, Variable, Word
from rldoctor.formats.shell.substitution import MAX_TEXT
from rldoctor.formats.values import Unresolved
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WORDS = 5000
# What is assigned to these is not the text that stands there: integers, other letters, maps.
_ATTRIBUTES = re.compile(r"-\w*[Ailu]")
_REFERENCE = re.compile(r"-\w*n")
_MAP = re.compile(r"-[^ilu]*A[^ilu]*")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")


@dataclass
class State:
    """What a part of a script changes: its variables, exports and arguments."""

    variables: dict[str, Variable]
    exports: set[str]
    positional: tuple[Word, ...] | None


class Scope:
    """Variables and what is exported of them. ``left`` says how the script, function or loop has been left (``exit``,
    ``return``, ``break``, ``continue``), empty while it goes on."""

    def __init__(self, expander: Expander, environment: Mapping[str, str | Unresolved]) -> None:
        self.expander = expander
        self.exports = set(environment)
        self.all_exported = False
        self.left = ""
        # Ways in which something before may have left; while there are any, or in an alternative, nothing is certain.
        self.pending: set[str] = set()
        self.alternatives = 0
        self.written: list[str] = []
        self.locals: list[dict[str, Variable | None]] = []
        # Names declared with attributes, and those that stand for another variable (declare -n).
        self.declared: dict[str, str] = {}
        self.references: dict[str, str] = {}
        for name, value in environment.items():
            expander.variables[name] = replace(known(value, 0), exported=True)

    @property
    def certain(self) -> bool:
        """Whether what stands here runs exactly once."""
        return not self.alternatives and not self.pending

    def state(self) -> State:
        return State(dict(self.expander.variables), set(self.exports), self.expander.positional)

    def restore(self, state: State) -> None:
        self.expander.variables = dict(state.variables)
        self.exports = set(state.exports)
        self.expander.positional = state.positional

    def apart(self, action: Callable[[], None]) -> None:
        """Runs something whose variables do not come back: a subshell, a pipeline's part."""
        saved, left, pending = self.state(), self.left, set(self.pending)
        action()
        self.restore(saved)
        self.left, self.pending = left, pending

    def maybe(self, choices: list[Callable[[], None]]) -> None:
        """Runs alternatives of which one will happen, and joins what they leave behind."""
        start = self.state()
        ends: list[State] = []
        ways: set[str] = set()
        self.alternatives += 1
        for choice in choices:
            self.restore(start)
            choice()
            if self.left:
                ways.add(self.left)
            else:
                ends.append(self.state())
            self.left = ""
        self.alternatives -= 1
        if not ends:
            self.left = next(way for way in ("break", "continue", "return", "exit") if way in ways)
        self.pending |= ways
        self.merge(ends or [start])

    def merge(self, ends: list[State]) -> None:
        """What is the same after all alternatives; the rest is unknown."""
        merged: dict[str, Variable] = {}
        for name in dict.fromkeys(name for end in ends for name in end.variables):
            found = [end.variables.get(name) for end in ends]
            first = next(variable for variable in found if variable is not None)
            if all(v is not None and _same(v, first) for v in found):
                merged[name] = first
            elif all(v is None or v.array for v in found):
                merged[name] = _common([v or replace(first, words=()) for v in found], name)
            elif any(v is not None and (v.array or any(word.many for word in v.words)) for v in found):
                merged[name] = replace(first, words=(_any(name, first.line),), array=True)
            else:
                merged[name] = self._open(name, first)
        self.expander.variables = merged
        self.exports = set().union(*(end.exports for end in ends))
        if any(end.positional != ends[0].positional for end in ends):
            self.expander.positional = (_any("$@", 0),)
        else:
            self.expander.positional = ends[0].positional

    def blur(self, names: Iterable[str]) -> None:
        """Makes variables unknown that may or may not have been written."""
        for name in dict.fromkeys(names):
            old = self.expander.variables.get(name)
            if name == "@":
                self.expander.positional = (_any("$@", 0),)
            elif old is not None and old.array:
                self.expander.variables[name] = replace(old, words=(*old.words, _any(name, old.line)))
            elif old is not None:
                self.expander.variables[name] = self._open(name, old)
            else:
                self.expander.variables[name] = Variable((_any(name, 0),), 0)

    def lose(self, name: str, line: int) -> None:
        """Makes an array unknown of which something has changed that is not followed."""
        self.set(name, Variable((_any(name, line),), line, array=True))

    def _open(self, name: str, variable: Variable) -> Variable:
        raw = self.expander.raw[max(variable.start, 0) : max(variable.end, 0)].decode(errors="replace")
        found = known(Unresolved(raw or name, f"{name} {_DEPENDS}"), variable.line)
        return replace(found, exported=variable.exported)

    def assign(self, node: Node, export: bool = False) -> None:
        """Carries out one assignment."""
        name_node = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name_node is None:
            return
        if (target := self.references.get(self.expander.text(name_node).partition("[")[0])) is not None:
            self.blur([target])
            return
        more = any(child.type == "+=" for child in node.children)
        if name_node.type == "subscript":
            self._assign_element(node, name_node, value, more)
            return
        name, line = self.expander.text(name_node), self.expander.line(node)
        if name in self.expander.maps:
            self._assign_map(name, value, line, more)
            return
        start, end = self.expander.span(node.start_byte, node.end_byte)
        array = value is not None and value.type == "array"
        words: list[Word] = []
        if array and value is not None:
            end_before = -1
            for child in value.children:
                if child.is_named and child.type != "comment" and len(words) < MAX_WORDS:
                    end_before = self.add(words, child, end_before)
            if re.search(r"(?:^\(|\s)\s*\[[^\]\s]*\]\+?=", self.expander.text(value)):
                words = [_any(name, line)]  # elements with places of their own
        else:
            words = [self._valued(name, value) if value is not None else self._word("", "", line)]
        old = self.expander.variables.get(name)
        if old is not None and old.array and not array:
            first = joined(old.words[0], words[0]) if more and old.words else words[0]
            words, array = [first, *old.words[1:]], True
        elif more and old is not None:
            words = (
                [*old.words, *words][:MAX_WORDS] if array else [joined(old.words[0], words[0])] if old.words else words
            )
            start = old.start
        elif more and not array:
            self.expander.asked.add(name)
        if (flags := self.declared.get(name)) is not None and not (
            "i" in flags and len(words) == 1 and not more and _INTEGER.fullmatch(words[0].text)
        ):
            why = Unresolved(name, f"{name} is declared with {flags}")
            words, array = list(known(why, line).words), False
        self.set(name, Variable(tuple(words), line, array, export, start, end))

    def _valued(self, name: str, value: Node) -> Word:
        """The word that an assignment gives; an empty one that nothing but an unset variable made is remembered."""
        outer, self.expander.asked = self.expander.asked, set()
        word = self.expander.word(value)
        if self.expander.asked and word.value == "":
            self.expander.left_empty.add(name)
        else:
            self.expander.left_empty.discard(name)
        self.expander.asked = outer | self.expander.asked
        return word

    def _assign_map(self, name: str, value: Node | None, line: int, more: bool) -> None:
        """``declare -A SIZES=([small]=1)``: each element is a variable of its own, called ``SIZES[small]``."""
        if not more:
            self._empty_map(name)
        for child in value.children if value is not None and value.type == "array" else ():
            if not child.is_named or child.type == "comment":
                continue
            word = self.expander.word(child)
            key, sign, _ = word.prefix.partition("]=")
            if not sign or not key.startswith("["):
                self._open_map(name)
                return
            element = self.expander.join(behind(word.pieces, len(key + sign)), word.raw, word.line, -1, -1)
            self.set(f"{name}{key}]", Variable((element,), line))
        if value is None or value.type != "array":
            self._open_map(name)

    def _empty_map(self, name: str) -> None:
        self.expander.maps[name] = True
        for element in self._elements(name):
            del self.expander.variables[element]

    def _open_map(self, name: str) -> None:
        """Something has changed in a map, and reading does not tell where."""
        self.expander.maps[name] = False
        self.blur(self._elements(name))

    def _elements(self, name: str) -> list[str]:
        return [one for one in self.expander.variables if one.startswith(f"{name}[")]

    def _assign_element(self, node: Node, subscript: Node, value: Node | None, more: bool) -> None:
        name, line = self.expander.text(subscript.children[0]), self.expander.line(node)
        if name in self.expander.maps:
            key = self.expander.word(subscript.children[2]).value
            if not isinstance(key, str) or value is None:
                self._open_map(name)
                return
            given, old = self.expander.word(value), self.expander.variables.get(f"{name}[{key}]")
            self.set(f"{name}[{key}]", Variable((joined(old.words[0], given) if more and old else given,), line))
            return
        index = self.expander.text(subscript)[:-1].partition("[")[2]
        old = self.expander.variables.get(name)
        words = list(old.words) if old is not None else []
        if more or value is None or not index.isdecimal() or int(index) > len(words) or any(w.open for w in words):
            self.lose(name, line)
            return
        words[int(index) : int(index) + 1] = [self.expander.word(value)]
        self.set(name, Variable(tuple(words), line, array=True))

    def add(self, words: list[Word], node: Node, end_before: int) -> int:
        """Adds the words that a node becomes, where the one before it ends at a byte, and returns where it ends itself.
        The grammar cuts some words at an escaped bracket, and each where a line goes on."""
        found = without_phrase(words, self.expander.text(node), self.expander.words(node))
        if words and found and end_before >= 0 and self.expander.raw[end_before : node.start_byte] in (b"", b"\\\n"):
            found = [joined(words.pop(), found[0]), *found[1:]]
        words.extend(found)
        return int(node.end_byte)

    def _word(self, value: str, raw: str, line: int) -> Word:
        return Word(value, raw, line, file=self.expander.file)

    def set(self, name: str, variable: Variable) -> None:
        """Gives a variable its value."""
        if variable.exported or (self.all_exported and "[" not in name) or name in self.exports:
            self.exports.add(name)
            variable = replace(variable, exported=True)
        self.written.append(name)
        self.expander.variables[name] = without_secret(name, variable)

    def arguments(self, words: tuple[Word, ...] | None) -> None:
        """Gives the script or function its arguments (``set --``, ``shift``)."""
        self.written.append("@")
        self.expander.positional = words

    def declare(self, node: Node) -> None:
        """``export``, ``declare``, ``local`` and their kin."""
        keyword = self.expander.text(node.children[0])
        flags = [self.expander.text(child) for child in node.children if child.type == "word"]
        export = keyword == "export" or any(flag.startswith("-") and "x" in flag for flag in flags)
        unexport = keyword == "export" and "-n" in flags
        odd = next((flag for flag in flags if keyword != "export" and _ATTRIBUTES.match(flag)), None)
        refers = keyword not in ("export", "readonly") and any(_REFERENCE.match(flag) for flag in flags)
        before = dict(self.expander.variables)
        local = bool(self.locals) and keyword in ("local", "declare", "typeset") and "-g" not in flags
        for child in node.children[1:]:
            if child.type not in ("variable_assignment", "variable_name"):
                if export and child.type in ("command_substitution", "simple_expansion", "expansion"):
                    self._export_words(child)
                continue
            name = self.expander.text(child.children[0] if child.type == "variable_assignment" else child)
            if local:
                self.locals[-1].setdefault(name, self.expander.variables.get(name))
            if odd is not None and _MAP.fullmatch(odd) is not None:
                self._declare_map(name, self.expander.line(node))
            elif odd is not None:
                self.declared[name] = odd
            if refers:
                self._refer(name, child)
            elif child.type == "variable_assignment":
                # Bash expands all of them before it gives any its value.
                given, self.expander.variables = self.expander.variables, dict(before)
                self.assign(child, export and not unexport)
                given.update({n: v for n, v in self.expander.variables.items() if before.get(n) is not v})
                self.expander.variables = given
            elif local and name not in self.expander.maps:
                self.expander.variables.pop(name, None)
                self.written.append(name)
            if unexport:
                self.exports.discard(name)
            elif export:
                self.exports.add(name)
            if name in self.expander.variables:
                exported = name in self.exports
                self.expander.variables[name] = replace(self.expander.variables[name], exported=exported)

    def _declare_map(self, name: str, line: int) -> None:
        if name not in self.expander.maps:
            self._empty_map(name)
            self.lose(name, line)  # in which order bash hands all elements out is not known

    def _refer(self, name: str, node: Node) -> None:
        """``declare -n name=target``: what is given to the name, the target gets."""
        value = node.child_by_field_name("value")
        target = self.expander.word(value).text if value is not None else ""
        self.references.pop(name, None)
        if target.isidentifier() and target != name:
            self.references[name] = target
        self.set(name, known(Unresolved(name, f"{name} stands for another variable"), self.expander.line(node)))

    def _export_words(self, node: Node) -> None:
        """``export $(cat .env | xargs)``: assignments among the words that an expansion becomes."""
        for word in self.expander.words(node):
            name, sign, value = word.text.partition("=")
            if sign and name.isidentifier() and not isinstance(word.value, Unresolved):
                self.exports.add(name)
                self.set(name, replace(known(value, word.line), exported=True))

    def leave_function(self) -> None:
        """Gives the variables that were local to a function back to those who had them before."""
        for name, old in self.locals.pop().items():
            self.declared.pop(name, None)
            self.references.pop(name, None)
            if self.expander.maps.pop(name, None) is not None:
                for element in self._elements(name):
                    del self.expander.variables[element]
            if old is None:
                self.expander.variables.pop(name, None)
            else:
                self.expander.variables[name] = old


_DEPENDS = "depends on how the script is started"


def known(value: str | Unresolved, line: int) -> Variable:
    """A variable of one word that stands nowhere."""
    raw = value.raw if isinstance(value, Unresolved) else value
    return Variable((Word(value, raw, line, pieces=(Piece(value, line),)),), line)


def given(argument: str | Word) -> tuple[Word, ...]:
    """An argument that a script is started with: a text, or a word of the script that starts it."""
    if isinstance(argument, str):
        return known(argument, 0).words
    return (_any(argument.raw, 0),) if argument.open else known(argument.value, 0).words


def _any(name: str, line: int) -> Word:
    """Any number of words."""
    why = Unresolved(name, f"the rest of {name} {_DEPENDS}")
    return Word(why, name, line, pieces=(Piece(why, line, many=True),), many=True)


def _same(left: Variable, right: Variable) -> bool:
    return left is right or (
        [w.value for w in left.words] == [w.value for w in right.words] and left.array == right.array
    )


def _common(arrays: list[Variable], name: str) -> Variable:
    """The elements that all variants of an array begin with, then one unknown word for the rest."""
    first, size = arrays[0], 0
    for position in zip(*(array.words for array in arrays), strict=False):
        if any(word.value != position[0].value or word.many for word in position):
            break
        size += 1
    return replace(first, words=(*first.words[:size], _any(name, first.line)))


def behind(pieces: Iterable[Piece], size: int) -> list[Piece]:
    """The parts of a word without so many letters at its beginning, all of them known."""
    left: list[Piece] = []
    for piece in pieces:
        if size and isinstance(piece.text, str):
            gone = piece.text[:size]
            size -= len(gone)
            start = piece.start + len(gone.encode()) if piece.literal and piece.start >= 0 else -1
            piece = replace(piece, text=piece.text[len(gone) :], start=start, end=piece.end if start >= 0 else -1)
        left.append(piece)
    return left


def joined(old: Word, new: Word) -> Word:
    """A text with another one behind it; not known where they are too many parts or too long."""
    left = old.pieces or (Piece(old.value, old.line),)
    right = new.pieces or (Piece(new.value, new.line),)
    pieces = (*left, *right)
    if len(pieces) > MAX_PIECES or (isinstance(old.value, str) and len(old.value) > MAX_TEXT):
        pieces = (Piece(Unresolved(new.raw[:80], TOO_LONG), new.line),)
        return Word(pieces[0].text, new.raw, new.line, pieces=pieces, file=new.file)
    if isinstance(old.value, str) and isinstance(new.value, str):
        value: str | Unresolved = old.value + new.value
    else:
        value = next(p.text for p in pieces if isinstance(p.text, Unresolved))
    return Word(value, new.raw, new.line, pieces=pieces, file=new.file)
