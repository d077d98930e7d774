"""Reads Python by its syntax tree: calls with their keywords, constants, variables, argparse defaults; nothing is
executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.native import Located, Native
from rldoctor.formats.python.holders import dotted
from rldoctor.formats.python.scope import Scope
from rldoctor.formats.shell.arguments import Arguments
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved
from rldoctor.io import untrusted
from rldoctor.plan.model import Form
from rldoctor.records import dataclass

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")


@dataclass
class Call:
    """One call: its dotted name, its keywords (``**`` dictionaries at hand included) with their lines, its
    positionals."""

    name: str
    line: int
    keywords: Located
    positionals: list[Any]


@dataclass
class PythonFile:
    """A Python source file. ``main_guard`` says whether it has an ``if __name__ == "__main__"``; ``nodes`` are
    its calls in their order."""

    source: Source
    tree: ast.Module
    main_guard: bool = False
    imports: set[str] = field(default_factory=set)
    nodes: list[ast.Call] = field(default_factory=list)
    _scopes: list[tuple[Arguments | None, Scope]] = field(default_factory=list)

    def imports_from(self, module: str) -> bool:
        """Whether ``module`` or something below it is imported."""
        return any(name == module or name.startswith(f"{module}.") for name in self.imports)

    def calls(self, name: str, arguments: Arguments | None = None) -> list[Call]:
        """The calls of ``name`` (``LLM``, ``FastLanguageModel.from_pretrained``; whatever stands before it is ignored),
        in their order. ``arguments`` are the command line that the script's own parser would see."""
        scope = self._scope(arguments)
        found = [node for node in self.nodes if _ends_with(dotted(node.func), name)]
        return [self._call(node, scope) for node in found]

    def natives(self, calls: Mapping[str, str], arguments: Arguments | None = None) -> Iterator[Native]:
        """The keywords of the named calls as settings, the prefix of the call before each, in the order of the file."""
        scope = self._scope(arguments)
        for node in self.nodes:
            spelled = dotted(node.func)
            name = next((name for name in calls if _ends_with(spelled, name)), None)
            if name is None:
                continue
            call = self._call(node, scope)
            for keyword, value in call.keywords.items():
                yield Native(
                    key=f"{calls[name]}{keyword}",
                    spelled=keyword,
                    value=value,
                    file=self.source.file,
                    line=call.keywords.lines[keyword],
                    form=Form.KEYWORD,
                    group=name,
                )

    def has_call(self, name: str) -> bool:
        """Whether ``name`` is called anywhere."""
        return any(_ends_with(dotted(node.func), name) for node in self.nodes)

    def variables(self) -> Iterator[Native]:
        """Environment variables that the file sets (``os.environ["X"] = ...``, ``setdefault``, ``update``); the value
        of one that is set under a condition or in a loop over names is unknown."""
        scope = self._scope(None)
        conditions = self._conditions()
        for node in ast.walk(self.tree):
            for native in self._set(node, scope):
                line = conditions.get(node)
                if line is not None:
                    why = f"it is set under the condition in line {line}"
                    native = replace(native, value=Unresolved(native.raw or str(native.value), why))
                yield native

    def _conditions(self) -> dict[ast.AST, int]:
        """The nodes that run under a condition, with its line."""
        found: dict[ast.AST, int] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.If) and not _is_guard(node):
                inside = (below for statement in (*node.body, *node.orelse) for below in ast.walk(statement))
                found.update(dict.fromkeys(inside, self.line(node.lineno)))
        return found

    def _set(self, node: ast.AST, scope: Scope) -> Iterator[Native]:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and dotted(target.value).endswith("environ"):
                    yield from self._variable(scope.value(target.slice), scope.value(node.value), node.lineno)
        elif isinstance(node, ast.Call) and len(node.args) == 2 and dotted(node.func).endswith("environ.setdefault"):
            yield from self._variable(scope.value(node.args[0]), scope.value(node.args[1]), node.lineno)
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("environ.update"):
            for given in map(scope.value, node.args):
                if isinstance(given, Located):
                    for key, value in given.items():
                        yield from self._variable(key, value, given.lines[key])
            for keyword in node.keywords:
                yield from self._variable(keyword.arg, scope.value(keyword.value), keyword.lineno)
        elif isinstance(node, ast.For) and any(map(_names_a_variable, ast.walk(node))):
            for below in ast.walk(node):
                if isinstance(below, ast.Constant) and _VARIABLE.fullmatch(str(below.value)):
                    value = Unresolved(str(below.value), "a loop sets it")
                    yield from self._variable(below.value, value, below.lineno)

    def call_line(self, name: str) -> int | None:
        """The line of the first call of ``name``, or None."""
        return next((node.lineno for node in self.nodes if _ends_with(dotted(node.func), name)), None)

    def _variable(self, name: Any, value: Any, line: int) -> Iterator[Native]:
        if isinstance(name, str):
            yield Native(
                key=name, spelled=name, value=value, file=self.source.file, line=self.line(line), form=Form.VARIABLE
            )

    def _call(self, node: ast.Call, scope: Scope) -> Call:
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for keyword in node.keywords:
            value = scope.value(keyword.value)
            if keyword.arg is not None:
                values[keyword.arg] = value
                lines[keyword.arg] = self.line(keyword.lineno)
            elif isinstance(value, Located):
                values.update(value)
                lines.update({key: self.line(line) for key, line in value.lines.items()})
        positionals = [scope.value(arg) for arg in node.args]
        return Call(dotted(node.func), self.line(node.lineno), Located(values, lines), positionals)

    def _scope(self, arguments: Arguments | None) -> Scope:
        """The names of the file; to look through all of it again for every call took most of reading a notebook."""
        scope = next((scope for given, scope in self._scopes if given is arguments), None)
        if scope is None:
            scope = Scope(self.tree, self.source.text, arguments)
            self._scopes.append((arguments, scope))
        return scope

    def is_guard(self, node: ast.AST) -> bool:
        """Whether a statement is ``if __name__ == "__main__"``."""
        return isinstance(node, ast.If) and _is_guard(node)

    def line(self, line: int) -> int:
        """The line of the file for one of its text."""
        return line + self.source.first_line - 1


def read_python(source: Source) -> PythonFile:
    """Reads a file. Raises :class:`InputError` with file and line where it is not valid Python or nests too deeply."""
    try:
        tree = untrusted.python(source.text)
    except SyntaxError as error:
        if error.lineno is None:
            raise InputError(f"{source.file}: {error.msg}") from None
        line = (error.lineno or 1) + source.first_line - 1
        raise InputError(f"{source.file}:{line}: not valid Python: {error.msg}") from None
    file = PythonFile(source, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            file.nodes.append(node)
        elif isinstance(node, ast.Import):
            file.imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            file.imports.add(node.module)
        elif isinstance(node, ast.If) and _is_guard(node):
            file.main_guard = True
    file.nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return file


def _is_guard(node: ast.If) -> bool:
    return isinstance(node.test, ast.Compare) and dotted(node.test.left) == "__name__"


def _ends_with(spelled: str, name: str) -> bool:
    return spelled == name or spelled.endswith(f".{name}")


def _names_a_variable(node: ast.AST) -> bool:
    """Whether a statement sets an environment variable whose name is no constant."""
    if isinstance(node, ast.Subscript):
        named = isinstance(node.ctx, ast.Store) and dotted(node.value).endswith("environ")
        return named and not isinstance(node.slice, ast.Constant)
    if isinstance(node, ast.Call) and dotted(node.func).endswith("environ.setdefault"):
        return bool(node.args) and not isinstance(node.args[0], ast.Constant)
    return False
