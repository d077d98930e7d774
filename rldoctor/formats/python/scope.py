"""The values that Python source fixes by itself: constants, names assigned once, f-strings, arithmetic, dictionaries,
and what :mod:`rldoctor.formats.python.holders` says of parsers, classes and parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rldoctor.formats.native import Located
from rldoctor.formats.python.arithmetic import MAX_NUMBER, MAX_TEXT, computed
from rldoctor.formats.python.holders import Holders, Option, dotted
from rldoctor.formats.shell.arguments import Arguments
from rldoctor.formats.values import Unresolved, scalar

MAX_DEPTH = 40

_CASTS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str, "bool": bool}


class Scope:
    """Evaluates expressions of one file by reading. Names are taken where all their assignments agree or one is left;
    ``arguments`` fill what the file's own parser (argparse, dataclass fields) would be given."""

    def __init__(self, tree: ast.Module, text: str, arguments: Arguments | None) -> None:
        self.lines = text.splitlines()
        self.arguments = arguments
        self.held = Holders(tree)
        self.depth = 0
        self.busy: set[str] = set()

    def value(self, node: ast.expr) -> Any:
        """The value of an expression, or an :class:`Unresolved`."""
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                return self._unknown(node, "nested too deeply")
            return self._value(node)
        finally:
            self.depth -= 1

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, int) and node.value > MAX_NUMBER:
                return self._unknown(node, "a number beyond settings")
            return (
                node.value
                if isinstance(node.value, str | int | float | bool | None)
                else self._unknown(node, "no setting")
            )
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._item(node, self.value(node.value), self.value(node.slice))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [self.value(part) for part in node.elts]
        if isinstance(node, ast.Dict):
            return self._dictionary(node)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            return self._either(node)
        if isinstance(node, ast.IfExp):
            test = self.value(node.test)
            if not isinstance(test, Unresolved):
                return self.value(node.body if test else node.orelse)
        return self._unknown(node, "an expression that is not constant")

    def _name(self, node: ast.Name) -> Any:
        assigned = self.held.assigned.get(node.id)
        if not assigned:
            return self._unknown(node, f"{node.id} is not set in this file")
        if node.id in self.busy:
            return self._unknown(node, f"{node.id} changes")
        self.busy.add(node.id)
        values = [
            self._unknown(node, f"{node.id} is an argument or changes")
            if value is None
            else self._option(node, value)
            if isinstance(value, Option)
            else self.value(value)
            for value in assigned[:8]
        ]
        self.busy.discard(node.id)
        if any(value != values[0] for value in values[1:]):
            return self._unknown(node, f"{node.id} is assigned more than once")
        if isinstance(values[0], list) and (node.id in self.held.updated or node.id in self.held.items):
            return self._unknown(node, f"{node.id} changes")
        return self._changed(node, values[0]) if isinstance(values[0], Located) else values[0]

    def _changed(self, node: ast.Name, whole: Located) -> Any:
        """A dictionary with what is put into it by name (``config["n"] = 4``)."""
        if node.id in self.held.updated:
            return self._unknown(node, f"{node.id} changes")
        values, lines = dict(whole), dict(whole.lines)
        for key, stored in self.held.items.get(node.id, {}).items():
            runs = [one for one in stored if self._runs(one) is not False]
            found = [
                self.value(one)
                if self._runs(one)
                else self._unknown(one, f"{node.id}[{key!r}] is set under a condition")
                for one in runs
            ]
            if not found:
                continue
            same = all(value == found[0] for value in found) and values.get(key, found[0]) == found[0]
            values[key] = found[0] if same else self._unknown(node, f"{node.id}[{key!r}] is set more than once")
            lines.setdefault(key, runs[0].lineno)
        return Located(values, lines)

    def _runs(self, value: ast.expr) -> bool | None:
        """Whether the statement that puts a value somewhere runs; None where that is not known."""
        truths = [None if test is None else self._truth(test) for test, _ in self.held.guards.get(value, [])]
        wanted = [truth for _, truth in self.held.guards.get(value, [])]
        if any(truth is not None and truth is not asked for truth, asked in zip(truths, wanted, strict=True)):
            return False
        return None if None in truths else True

    def _truth(self, test: ast.expr) -> bool | None:
        """What a condition comes to; None where that is not known."""
        if isinstance(test, ast.Compare):
            if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
                return None
            left, right = self.value(test.left), self.value(test.comparators[0])
            if isinstance(left, Unresolved) or isinstance(right, Unresolved):
                return None
            return bool((left == right) is isinstance(test.ops[0], ast.Eq | ast.Is))
        value = self.value(test)
        return None if isinstance(value, Unresolved) else bool(value)

    def _attribute(self, node: ast.Attribute) -> Any:
        fields = self.held.fields_of(node.value)
        if fields is not None and node.attr in fields:
            stored = self.held.attributes.get(node.attr, [])
            value = self._option(node, fields[node.attr])
            if any(self.value(one) != value for one in stored):
                return self._unknown(node, f"{node.attr} is set more than once")
            return value
        # torch.bfloat16 and the like: the name is the value.
        if dotted(node).startswith("torch."):
            return dotted(node)
        return self._unknown(node, f"{dotted(node) or 'it'} is not set in this file")

    def _option(self, node: ast.AST, option: Option) -> Any:
        """What the command line gives an option of the script, or its default."""
        given = self.arguments.value(option.name) if option.parsed and self.arguments is not None else None
        if given is not None:
            return scalar(given) if isinstance(given, str) else given
        if option.default is not None:
            return self.value(option.default)
        return self._unknown(node, option.why)

    def _item(self, node: ast.AST, whole: Any, key: Any) -> Any:
        if isinstance(whole, Unresolved):
            return self._unknown(node, whole.why)
        if isinstance(whole, dict) and isinstance(key, str | int) and str(key) in whole:
            return whole[str(key)]
        if isinstance(whole, list) and isinstance(key, int) and -len(whole) <= key < len(whole):
            return whole[key]
        return self._unknown(node, "an expression that is not constant")

    def _dictionary(self, node: ast.Dict) -> Any:
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            if key_node is None:
                if isinstance(value, Located):
                    values.update(value)
                    lines.update(value.lines)
                continue
            key = self.value(key_node)
            if not isinstance(key, Unresolved | list | dict):
                values[str(key)], lines[str(key)] = value, key_node.lineno
        return Located(values, lines)

    def _joined(self, node: ast.JoinedStr) -> Any:
        done = ""
        for part in node.values:
            value = self.value(part.value) if isinstance(part, ast.FormattedValue) else self.value(part)
            if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                return self._unknown(node, "a formatted value")
            if isinstance(value, Unresolved):
                return self._unknown(node, value.why)
            done += str(value)
            if len(done) > MAX_TEXT:
                return self._unknown(node, "too long")
        return done

    def _binary(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        for side in (left, right):
            if isinstance(side, Unresolved):
                return self._unknown(node, side.why)
        try:
            return computed(node.op, left, right)
        except ValueError as error:
            return self._unknown(node, str(error))

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(value, int | float):
            if isinstance(node.op, ast.USub):
                return -value
            if isinstance(node.op, ast.Not):
                return not value
        return self._unknown(node, value.why if isinstance(value, Unresolved) else "not constant")

    def _either(self, node: ast.BoolOp) -> Any:
        for part in node.values:
            value = self.value(part)
            if isinstance(value, Unresolved) or value:
                return value
        return value

    def _call(self, node: ast.Call) -> Any:
        name = dotted(node.func)
        if name == "dict" and not node.args:
            pairs = {k.arg: self.value(k.value) for k in node.keywords if k.arg}
            lines = {k.arg: k.value.lineno for k in node.keywords if k.arg}
            for keyword in node.keywords:
                more = self.value(keyword.value) if keyword.arg is None else None
                if isinstance(more, Located):
                    pairs.update(more)
                    lines.update(more.lines)
            return Located(pairs, lines)
        if name.endswith(("environ.get", "os.getenv")) and len(node.args) == 2:
            return self.value(node.args[1])
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and len(node.args) in (1, 2):
            whole, key = self.value(node.func.value), self.value(node.args[0])
            if isinstance(whole, dict) and isinstance(key, str) and key in whole:
                return whole[key]
        if name in _CASTS and len(node.args) == 1 and not node.keywords:
            value = self.value(node.args[0])
            if isinstance(value, str | int | float) and len(str(value)) < 100:
                try:
                    return _CASTS[name](value)
                except (ValueError, OverflowError) as error:
                    return self._unknown(node, str(error))
        if name.endswith("path.join"):
            parts = [self.value(arg) for arg in node.args]
            if all(isinstance(part, str) for part in parts):
                return "/".join(parts)
        return self._unknown(node, "a call, which is not made")

    def _unknown(self, node: ast.AST, why: str) -> Unresolved:
        line, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        row = self.lines[line - 1].encode() if 0 < line <= len(self.lines) else b""
        start, stop = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        raw = row[start : stop if line == end else len(row)].decode(errors="replace")
        return Unresolved(raw[:120], why)
