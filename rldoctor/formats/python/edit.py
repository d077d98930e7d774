"""Edits Python source: a keyword of a call, an entry of a dictionary, a variable of the environment."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

from rldoctor.formats.python.holders import dotted
from rldoctor.formats.write import CannotEdit, Write
from rldoctor.plan.model import Form


def rewrite_python(text: str, write: Write) -> str:
    """The source with one value set, or taken out. Raises :class:`CannotEdit`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CannotEdit(f"{write.file} is not valid Python") from None
    source = _Text(text)
    if write.form is Form.VARIABLE:
        new = _variable(source, tree, write)
    elif write.form is Form.KEYWORD:
        new = _keyword(source, tree, write)
    else:
        raise CannotEdit(f"{write.file} is Python, and {write.key} is none of its keywords")
    try:
        ast.parse(new)
    except SyntaxError:
        raise CannotEdit("the source would not be valid any more") from None
    return new


class _Text:
    """A source text addressed by the tree's lines and byte columns."""

    def __init__(self, text: str) -> None:
        self.raw = text.encode()
        self.starts = [0]
        for row in self.raw.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(row))

    def start(self, node: ast.expr | ast.keyword) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.keyword) -> int:
        return self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def replaced(self, start: int, end: int, new: str) -> str:
        return (self.raw[:start] + new.encode() + self.raw[end:]).decode()


def _keyword(source: _Text, tree: ast.Module, write: Write) -> str:
    if write.rename is not None:
        return _renamed(source, tree, write)
    value = _value(tree, write)
    if value is not None:
        if write.remove:
            raise CannotEdit(f"{write.key} at line {value.lineno}: taking a keyword out is left to you")
        if write.path:
            return _in_dictionary(source, value, write)
        return source.replaced(source.start(value), source.end(value), write.value or "None")
    call = next((c for c in _calls(tree, write.group) if c.lineno <= write.line <= (c.end_lineno or c.lineno)), None)
    if call is None:
        raise CannotEdit(f"there is no call of {write.group or write.key} at line {write.line}")
    text = f"{write.key}={_nested(write)}"
    return text if write.remove else _with_keyword(source, call, text)


def _value(tree: ast.Module, write: Write) -> ast.expr | None:
    """The expression that gives the keyword its value: in a call, in ``dict(...)`` or in a dictionary that is passed
    on."""
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            inside = node.lineno <= write.line <= (node.end_lineno or node.lineno)
            named = not write.group or _ends_with(dotted(node.func), write.group)
            for keyword in node.keywords:
                on_line = keyword.lineno == write.line and not write.group
                if keyword.arg == write.key and (on_line or (inside and named)):
                    found.append(keyword.value)
        elif isinstance(node, ast.Dict) and not write.group:
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == write.key and key.lineno == write.line:
                    found.append(value)
    return found[-1] if found else None


def _renamed(source: _Text, tree: ast.Module, write: Write) -> str:
    new = write.rename or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == write.key and node.lineno == write.line:
            start = source.start(node)
            return source.replaced(start, start + len(write.key.encode()), new)
        if isinstance(node, ast.Constant) and node.value == write.key and node.lineno == write.line:
            return source.replaced(source.start(node), source.end(node), json.dumps(new))
    return source.raw.decode()


def _calls(tree: ast.Module, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _ends_with(dotted(node.func), name):
            yield node


def _ends_with(spelled: str, name: str) -> bool:
    return spelled == name or spelled.endswith(f".{name}")


def _with_keyword(source: _Text, call: ast.Call, text: str) -> str:
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not given:
        end = source.end(call) - 1
        return source.replaced(end, end, text)
    last = max(given, key=source.end)
    end = source.end(last)
    apart = last.lineno != call.lineno
    row = source.raw[source.starts[last.lineno - 1] :]
    indent = re.match(rb"[ \t]*", row)
    space = "\n" + (indent[0].decode() if indent else "") if apart else " "
    comma = re.match(rb"\s*,", source.raw[end:])
    after = end if comma is None else end + comma.end()
    # A comment behind the last argument stays with it.
    comment = re.match(rb"[ \t]*#[^\r\n]*", source.raw[after:])
    kept = source.raw[after : after + comment.end()].decode() if comment is not None else ""
    if kept and not apart:
        raise CannotEdit(f"a comment stands inside the call at line {call.lineno}")
    tail = "," if comma is not None else ""
    return source.replaced(end, after + len(kept.encode()), f",{kept}{space}{text}{tail}")


def _in_dictionary(source: _Text, value: ast.expr, write: Write) -> str:
    node: ast.expr = value
    for depth, part in enumerate(write.path):
        if not isinstance(node, ast.Dict):
            raise CannotEdit(f"{write.key} at line {node.lineno} is no dictionary that can be read")
        inner = [
            v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant) and k.value == part
        ]
        if not inner:
            entry = f"{json.dumps(part)}: {_python(write, depth + 1)}"
            end = source.end(node) - 1
            before = source.raw[source.start(node) + 1 : end].rstrip()
            separator = "" if not before else " " if before.endswith(b",") else ", "
            return source.replaced(end, end, separator + entry)
        node = inner[-1]
    return source.replaced(source.start(node), source.end(node), _python(write, len(write.path)))


def _python(write: Write, depth: int) -> str:
    value = json.loads(write.value or "null")
    for part in reversed(write.path[depth:]):
        value = {part: value}
    return repr(value)


def _nested(write: Write) -> str:
    return _python(write, 0) if write.path else write.value or "None"


def _variable(source: _Text, tree: ast.Module, write: Write) -> str:
    value = json.dumps(write.value or "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if (
                isinstance(target, ast.Subscript)
                and dotted(target.value).endswith("environ")
                and _is(target.slice, write.key)
            ):
                return source.replaced(source.start(node.value), source.end(node.value), value)
        elif (
            isinstance(node, ast.Call)
            and dotted(node.func).endswith("environ.setdefault")
            and _is(node.args[0], write.key)
        ):
            return source.replaced(source.start(node.args[1]), source.end(node.args[1]), value)
    if write.remove:
        raise CannotEdit(f"{write.key} is not set in a way that can be taken out")
    line = _first_line(tree)
    at = source.starts[min(line, len(source.starts) - 1)]
    return source.replaced(at, at, f'import os\n\nos.environ["{write.key}"] = {value}\n')


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == name


def _first_line(tree: ast.Module) -> int:
    """The number of lines before the first statement that is neither the docstring nor an import from
    ``__future__``."""
    line = 0
    for node in tree.body:
        docstring = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not docstring and not future:
            return max(line, node.lineno - 1)
        line = node.end_lineno or node.lineno
    return line
