"""What was None in an expression that wanted a value: the interpreter names the type, the line that failed the
name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from rldoctor.io import untrusted
from rldoctor.logs.model import LoggedException

_NONE = "NoneType"
_OPERANDS = re.compile(r"unsupported operand type\(s\) for (?P<op>\S+): '(?P<left>[\w.]+)' and '(?P<right>[\w.]+)'")
_COMPARED = re.compile(
    r"'(?P<op>[<>]=?)' not supported between instances of '(?P<left>[\w.]+)' and '(?P<right>[\w.]+)'"
)
_OPERATORS: dict[str, type[ast.AST]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "**": ast.Pow,
    "@": ast.MatMult, "&": ast.BitAnd, "|": ast.BitOr, "^": ast.BitXor, "<<": ast.LShift, ">>": ast.RShift,
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE,
}  # fmt: skip
# A line of a statement of several is one of these, or an argument of a call.
_WHOLE = ("{}", "{} pass", "f({})", "({})", "{})", "{}]", "if {}: pass")
_Operands = Callable[[ast.AST], "ast.expr | None"]


def was_none(failed: LoggedException) -> str | None:
    """The expression that was None as the line of the innermost frame shows it (``self.args.batch_size``); None where
    the failure is another one, the line is not there, or several of its parts may be meant."""
    if _NONE not in failed.message or not failed.frames:
        return None
    operand = _operand(failed.message)
    tree = _parsed(failed.frames[-1].code)
    if operand is None or tree is None:
        return None
    found = {ast.unparse(one) for node in ast.walk(tree) if (one := operand(node)) is not None}
    return found.pop() if len(found) == 1 else None


def _parsed(code: str) -> ast.AST | None:
    line = code.strip().rstrip(",")
    for form in _WHOLE:
        try:
            return untrusted.python(form.format(line))
        except (SyntaxError, ValueError, RecursionError):
            continue
    return None


def _operand(message: str) -> _Operands | None:
    """What of a node was None, by what the interpreter says."""
    match = _OPERANDS.search(message) or _COMPARED.search(message)
    if match is not None:
        # Of two that are None both are meant.
        if (match["left"] == _NONE) == (match["right"] == _NONE):
            return None
        return _of_operator(match["op"].removesuffix("="), match["op"], match["left"] == _NONE)
    if f"'{_NONE}' object is not subscriptable" in message:
        return lambda node: node.value if isinstance(node, ast.Subscript) else None
    if f"'{_NONE}' object is not callable" in message:
        return lambda node: node.func if isinstance(node, ast.Call) and not _is_form(node) else None
    if f"'{_NONE}' object is not iterable" in message:
        return lambda node: node.iter if isinstance(node, (ast.For, ast.comprehension)) else None
    attribute = re.search(rf"'{_NONE}' object has no attribute '(\w+)'", message)
    if attribute is not None:
        return lambda node: node.value if isinstance(node, ast.Attribute) and node.attr == attribute[1] else None
    if f"object of type '{_NONE}' has no len()" in message:
        return lambda node: next(_measured(node), None)
    return None


def _is_form(call: ast.Call) -> bool:
    """Whether a call is that of :data:`_WHOLE` alone."""
    return isinstance(call.func, ast.Name) and call.func.id == "f" and call.col_offset == 0


def _measured(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        yield from node.args


def _of_operator(operator: str, written: str, left: bool) -> _Operands:
    kind = _OPERATORS.get(written) or _OPERATORS.get(operator)

    def operand(node: ast.AST) -> ast.expr | None:
        if kind is None:
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
            return node.left if left else node.right
        if isinstance(node, ast.AugAssign) and isinstance(node.op, kind):
            return node.target if left else node.value
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], kind):
            return node.left if left else node.comparators[0]
        return None

    return operand
