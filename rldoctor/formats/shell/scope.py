"""The variables of a shell script while it is read: assignments, exports, and what alternatives leave behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rldoctor.formats.shell.expand import Expander
from rldoctor.formats.shell.reader import Piece, Variable, Word
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WORDS = 5000
# Of these, what is assigned is not the text that stands there: integers, other letters, references, maps.
_ATTRIBUTES = re.compile(r"[-+]\w*[Ailnu]")


@dataclass
class State:
    """What a part of a script changes: its variables, exports and arguments."""

    variables: dict[str, Variable]
    exports: set[str]
    positional: tuple[Word, ...] | None


class Scope:
    """Variables and what is exported of them. ``left`` says how the script, function or loop has been left (``exit``,
    ``return``, ``break``, ``continue``), empty while it goes on."""

    def __init__(self, expander: Expander, environment: Mapping[str, str]) -> None:
        self.expander = expander
        self.exports = set(environment)
        self.all_exported = False
        self.left = ""
        # Ways in which something before may have left; while there are any, or in an alternative, nothing is certain.
        self.pending: set[str] = set()
        self.alternatives = 0
        self.written: list[str] = []
        self.locals: list[dict[str, Variable | None]] = []
        for name, value in environment.items():
            word = Word(value, value, 0, pieces=(Piece(value, 0),))
            expander.variables[name] = Variable((word,), 0, exported=True)

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
        more = any(child.type == "+=" for child in node.children)
        if name_node.type == "subscript":
            self._assign_element(node, name_node, value, more)
            return
        name, line = self.expander.text(name_node), self.expander.line(node)
        start, end = self.expander.span(node.start_byte, node.end_byte)
        array = value is not None and value.type == "array"
        if array and value is not None:
            words = [word for child in value.children if child.is_named for word in self._element(child)][:MAX_WORDS]
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

    def _assign_element(self, node: Node, subscript: Node, value: Node | None, more: bool) -> None:
        name, line = self.expander.text(subscript.children[0]), self.expander.line(node)
        index = self.expander.text(subscript)[:-1].partition("[")[2]
        old = self.expander.variables.get(name)
        words = list(old.words) if old is not None else []
        if more or value is None or not index.isdigit() or int(index) > len(words) or any(w.open for w in words):
            words = [_any(name, line)]
        else:
            words[int(index) : int(index) + 1] = [self.expander.word(value)]
        self.set(name, Variable(tuple(words), line, array=True))

    def _element(self, node: Node) -> list[Word]:
        return [] if node.type == "comment" else self.expander.words(node)

    def _word(self, value: str, raw: str, line: int) -> Word:
        return Word(value, raw, line, file=self.expander.file)

    def set(self, name: str, variable: Variable) -> None:
        """Gives a variable its value."""
        if variable.exported or self.all_exported or name in self.exports:
            self.exports.add(name)
            variable = replace(variable, exported=True)
        self.written.append(name)
        self.expander.variables[name] = variable

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
        odd = keyword != "export" and any(_ATTRIBUTES.match(flag) for flag in flags)
        local = bool(self.locals) and keyword in ("local", "declare", "typeset") and "-g" not in flags
        for child in node.children[1:]:
            if child.type not in ("variable_assignment", "variable_name"):
                if export and child.type in ("command_substitution", "simple_expansion", "expansion"):
                    self._export_words(child)
                continue
            name = self.expander.text(child.children[0] if child.type == "variable_assignment" else child)
            if local:
                self.locals[-1].setdefault(name, self.expander.variables.get(name))
            if child.type == "variable_assignment":
                self.assign(child, export and not unexport)
            elif local:
                self.expander.variables.pop(name, None)
                self.written.append(name)
            if odd:
                self.set(name, known(Unresolved(name, f"{name} is declared with {' '.join(flags)}"), 0))
            if unexport:
                self.exports.discard(name)
            elif export:
                self.exports.add(name)
            if name in self.expander.variables:
                exported = name in self.exports
                self.expander.variables[name] = replace(self.expander.variables[name], exported=exported)

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
            if old is None:
                self.expander.variables.pop(name, None)
            else:
                self.expander.variables[name] = old


_DEPENDS = "depends on how the script is started"


def known(value: str | Unresolved, line: int) -> Variable:
    """A variable of one word that stands nowhere."""
    raw = value.raw if isinstance(value, Unresolved) else value
    return Variable((Word(value, raw, line, pieces=(Piece(value, line),)),), line)


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


def joined(old: Word, new: Word) -> Word:
    """A text with another one behind it."""
    left = old.pieces or (Piece(old.value, old.line),)
    right = new.pieces or (Piece(new.value, new.line),)
    pieces = (*left, *right)
    unknown = next((p.text for p in pieces if isinstance(p.text, Unresolved)), None)
    text = "".join(" " if p.boundary else p.text for p in pieces if isinstance(p.text, str))
    return Word(unknown if unknown is not None else text, new.raw, new.line, pieces=pieces, file=new.file)
