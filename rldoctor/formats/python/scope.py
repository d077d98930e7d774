"""The values that Python source fixes by itself: constants, names assigned once, f-strings, arithmetic, parser
defaults."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rldoctor.formats.native import Located
from rldoctor.formats.python.arithmetic import MAX_NUMBER, MAX_TEXT, computed
from rldoctor.formats.shell.arguments import Arguments
from rldoctor.formats.values import Unresolved, scalar

MAX_DEPTH = 40

_CASTS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str, "bool": bool}


def dotted(node: ast.expr) -> str:
    """The dotted name of an expression (``os.environ``), empty where it is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(reversed(parts)) if parts else ""
    return ".".join([node.id, *reversed(parts)])


class Scope:
    """Evaluates expressions of one file by reading. Names are taken where all their assignments agree or one is left;
    ``arguments`` fill what the file's own parser (argparse, dataclass fields) would be given."""

    def __init__(self, tree: ast.Module, text: str, arguments: Arguments | None) -> None:
        self.lines = text.splitlines()
        self.arguments = arguments
        self.assigned: dict[str, list[ast.expr | None]] = {}
        self.fields: dict[str, ast.expr | None] = {}
        self.parsed: set[str] = set()
        self.depth = 0
        self.busy: set[str] = set()
        for node in ast.walk(tree):
            self._learn(node)

    def value(self, node: ast.expr) -> Any:
        """The value of an expression, or an :class:`Unresolved`."""
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                return self._unknown(node, "nested too deeply")
            return self._value(node)
        finally:
            self.depth -= 1

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.value is not None:
                self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign | ast.For | ast.AsyncFor):
            for name in ast.walk(node.target):
                if isinstance(name, ast.Name):
                    self.assigned.setdefault(name.id, []).append(None)
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    self.fields[part.target.id] = _field_default(part.value)
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("add_argument"):
            self._argument(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                self.assigned.setdefault(argument.arg, []).append(None)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
            if isinstance(value, ast.Call) and _is_parser(dotted(value.func)):
                self.parsed.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for index, part in enumerate(target.elts):
                if not isinstance(part, ast.Name):
                    continue
                inner = value.elts[index] if same and isinstance(value, ast.Tuple | ast.List) else None
                self.assigned.setdefault(part.id, []).append(inner)
                if isinstance(value, ast.Call) and _is_parser(dotted(value.func)):
                    self.parsed.add(part.id)

    def _argument(self, node: ast.Call) -> None:
        names = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        long = next((name for name in names if name.startswith("--")), names[0] if names else "")
        dest = given.get("dest")
        name = dest.value if isinstance(dest, ast.Constant) else long.lstrip("-").replace("-", "_")
        default: ast.expr | None = given.get("default")
        action = given.get("action")
        if default is None and isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
            default = ast.Constant(action.value == "store_false")
        if isinstance(name, str) and name:
            self.fields[name] = default

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
        if node.id not in self.assigned:
            return self._unknown(node, f"{node.id} is not set in this file")
        if node.id in self.busy:
            return self._unknown(node, f"{node.id} changes")
        self.busy.add(node.id)
        values = [
            self._unknown(node, f"{node.id} is an argument or changes") if value is None else self.value(value)
            for value in self.assigned[node.id][:8]
        ]
        self.busy.discard(node.id)
        if any(value != values[0] for value in values[1:]):
            return self._unknown(node, f"{node.id} is assigned more than once")
        return values[0]

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr in self.fields and isinstance(node.value, ast.Name) and node.value.id in self.parsed:
            given = self.arguments.value(node.attr) if self.arguments is not None else None
            if given is not None:
                return scalar(given) if isinstance(given, str) else given
            default = self.fields[node.attr]
            if default is not None:
                return self.value(default)
            return self._unknown(node, f"{node.attr} is an argument of the script")
        # torch.bfloat16 and the like: the name is the value.
        if dotted(node).startswith("torch."):
            return dotted(node)
        return self._unknown(node, f"{dotted(node) or 'it'} is not set in this file")

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


def _is_parser(name: str) -> bool:
    return name.rpartition(".")[2] in (
        "parse_args",
        "parse_known_args",
        "parse_args_into_dataclasses",
        "parse_args_and_config",
    )


def _field_default(value: ast.expr | None) -> ast.expr | None:
    if isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] == "field":
        return next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    return value
