"""The value of an expression, as far as its syntax tree alone gives it."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rldoctor.formats.python.arithmetic import computed
from rldoctor.tables.options.model import Computed
from rldoctor.tables.options.source import Definition, Module, Sources, dotted

Attribute = Callable[[Definition, str], Any]

_LONGEST = 80  # characters of an expression that is kept as text
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_CALLS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "dict": dict,
    "list": list,
    "tuple": list,
    "set": list,
    "frozenset": list,
}


class UnevaluableError(Exception):
    """The expression's value is not in the source."""


class Evaluator:
    """Evaluates literals, arithmetic on them, names of constants and members of enumerations, and nothing else.

    ``attribute`` answers ``Class.name``; ``environment`` gives the values of loop variables."""

    def __init__(self, sources: Sources, attribute: Attribute) -> None:
        self.sources = sources
        self.attribute = attribute

    def value(self, module: Module, node: ast.expr, environment: Mapping[str, Any] | None = None) -> Any:
        """The value, or :class:`Computed` with the source text where the value is made at run time."""
        try:
            found = self.strict(module, node, environment or {})
        except UnevaluableError:
            found = math.nan
        if not isinstance(found, float) or math.isfinite(found):  # tables are JSON, which has no infinity
            return found
        text = module.segment(node)
        return Computed(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")

    def strict(self, module: Module, node: ast.expr, environment: Mapping[str, Any], depth: int = 0) -> Any:
        """The value; raises :class:`UnevaluableError` where the source does not give one."""
        if depth > 20:
            raise UnevaluableError

        def inner(part: ast.expr) -> Any:
            return self.strict(module, part, environment, depth + 1)

        if isinstance(node, ast.Constant):
            return None if node.value is ... else node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [inner(part) for part in node.elts]
        if isinstance(node, ast.Dict) and all(key is not None for key in node.keys):
            return {inner(key): inner(value) for key, value in zip(node.keys, node.values, strict=True) if key}
        if isinstance(node, ast.JoinedStr):
            return "".join(str(inner(p.value)) if isinstance(p, ast.FormattedValue) else inner(p) for p in node.values)
        if isinstance(node, ast.IfExp):
            return inner(node.body) if inner(node.test) else inner(node.orelse)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._name(module, node, environment, depth)
        if isinstance(node, ast.Call):
            return self._call(node, inner)
        return _operation(node, inner)

    def _name(self, module: Module, node: ast.expr, environment: Mapping[str, Any], depth: int) -> Any:
        name = dotted(node)
        if name is None:
            raise UnevaluableError
        if name in environment:
            return environment[name]
        head, _, last = name.removesuffix(".value").rpartition(".")
        if head:
            owner = self.sources.resolve(module, head)
            if isinstance(owner, Definition) and isinstance(owner.node, ast.ClassDef):
                return self.attribute(owner, last)
        found = self.sources.resolve(module, name)
        if isinstance(found, Definition) and isinstance(found.node, ast.expr):
            return self.strict(found.module, found.node, {}, depth + 1)
        raise UnevaluableError

    @staticmethod
    def _call(node: ast.Call, inner: Callable[[ast.expr], Any]) -> Any:
        function = _CALLS.get(dotted(node.func) or "")
        if function is None or any(keyword.arg is None for keyword in node.keywords):
            raise UnevaluableError
        arguments = [inner(argument) for argument in node.args]
        keywords = {keyword.arg: inner(keyword.value) for keyword in node.keywords if keyword.arg}
        try:
            return function(*arguments, **keywords)
        except (TypeError, ValueError, OverflowError) as error:
            raise UnevaluableError from error


def _operation(node: ast.expr, inner: Callable[[ast.expr], Any]) -> Any:
    try:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -inner(node.operand)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not inner(node.operand)
        if isinstance(node, ast.BinOp):
            return computed(node.op, inner(node.left), inner(node.right))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            return _COMPARE[type(node.ops[0])](inner(node.left), inner(node.comparators[0]))
        if isinstance(node, ast.Subscript):
            return inner(node.value)[inner(node.slice)]
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise UnevaluableError from error
    raise UnevaluableError
