"""The variables of a shell script while it is read: assignments, exports, and what alternatives leave behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rldoctor.formats.shell.expand import Expander
from rldoctor.formats.shell.reader import Piece, Variable, Word
from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_WORDS = 5000


class Scope:
    """Variables and what is exported of them. ``left`` is set once the script, function or loop has been left."""

    def __init__(self, expander: Expander, environment: Mapping[str, str]) -> None:
        self.expander = expander
        self.exports = set(environment)
        self.all_exported = False
        self.left = False
        for name, value in environment.items():
            word = Word(value, value, 0, pieces=(Piece(value, 0),))
            expander.variables[name] = Variable((word,), 0, exported=True)

    def apart(self, action: Callable[[], None]) -> None:
        """Runs something whose variables do not come back: a subshell, a pipeline's part."""
        saved, exports, left = dict(self.expander.variables), set(self.exports), self.left
        action()
        self.expander.variables, self.exports, self.left = saved, exports, left

    def maybe(self, choices: list[Callable[[], None]]) -> None:
        """Runs alternatives of which one will happen, and joins what they leave behind."""
        start = dict(self.expander.variables)
        ends: list[dict[str, Variable]] = []
        for choice in choices:
            self.expander.variables = dict(start)
            choice()
            if not self.left:
                ends.append(self.expander.variables)
            self.left = False
        if not ends:
            self.left = True
        self.merge(ends or [start])

    def merge(self, ends: list[dict[str, Variable]]) -> None:
        merged: dict[str, Variable] = {}
        for name in dict.fromkeys(name for end in ends for name in end):
            found = [end.get(name) for end in ends]
            first = next(variable for variable in found if variable is not None)
            if all(v is not None and _same(v, first) for v in found):
                merged[name] = first
            elif all(v is not None and v.array for v in found):
                merged[name] = _common([v for v in found if v is not None], name)
            else:
                raw = self.expander.raw[max(first.start, 0) : max(first.end, 0)].decode(errors="replace")
                why = Unresolved(raw or name, f"{name} depends on how the script is started")
                merged[name] = replace(known(why, first.line), exported=first.exported)
        self.expander.variables = merged

    def assign(self, node: Node, export: bool = False) -> None:
        name_node = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name_node is None or name_node.type == "subscript":
            return
        name, line = self.expander.text(name_node), self.expander.line(node)
        start, end = self.expander.span(node.start_byte, node.end_byte)
        array = value is not None and value.type == "array"
        if array and value is not None:
            words = [word for child in value.children if child.is_named for word in self._element(child)][:MAX_WORDS]
        else:
            words = [self.expander.word(value)] if value is not None else [Word("", "", line)]
        old = self.expander.variables.get(name)
        if any(child.type == "+=" for child in node.children) and old is not None:
            words = [*old.words, *words][:MAX_WORDS] if array or old.array else [_joined(old, words[0], line)]
            array, start = array or old.array, old.start
        self.set(name, Variable(tuple(words), line, array, export, start, end))

    def _element(self, node: Node) -> list[Word]:
        return [] if node.type == "comment" else self.expander.words(node)

    def set(self, name: str, variable: Variable) -> None:
        if variable.exported or self.all_exported or name in self.exports:
            self.exports.add(name)
            variable = replace(variable, exported=True)
        self.expander.variables[name] = variable

    def declare(self, node: Node) -> None:
        keyword = self.expander.text(node.children[0])
        flags = [self.expander.text(child) for child in node.children if child.type == "word"]
        export = keyword == "export" or any(flag.startswith("-") and "x" in flag for flag in flags)
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                self.assign(child, export)
            elif child.type == "variable_name" and export and "-n" not in flags:
                name = self.expander.text(child)
                self.exports.add(name)
                if name in self.expander.variables:
                    self.expander.variables[name] = replace(self.expander.variables[name], exported=True)


def known(value: str | Unresolved, line: int) -> Variable:
    raw = value.raw if isinstance(value, Unresolved) else value
    return Variable((Word(value, raw, line, pieces=(Piece(value, line),)),), line)


def _same(left: Variable, right: Variable) -> bool:
    return left is right or (
        [w.value for w in left.words] == [w.value for w in right.words] and left.array == right.array
    )


def _common(arrays: list[Variable], name: str) -> Variable:
    """The elements that all variants of an array begin with, then one unknown word for the rest."""
    first, size = arrays[0], 0
    for position in zip(*(array.words for array in arrays), strict=False):
        if any(word.value != position[0].value for word in position):
            break
        size += 1
    why = Unresolved(name, f"the rest of {name} depends on how the script is started")
    rest = Word(why, name, first.line, many=True)
    return replace(first, words=(*first.words[:size], rest))


def _joined(old: Variable, new: Word, line: int) -> Word:
    pieces = tuple(piece for word in (*old.words, new) for piece in word.pieces)
    unknown = next((p.text for p in pieces if isinstance(p.text, Unresolved)), None)
    text = "".join(p.text for p in pieces if isinstance(p.text, str))
    return Word(unknown if unknown is not None else text, new.raw, line, pieces=pieces)
