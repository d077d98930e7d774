"""Computes shell arithmetic where every number in it is known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.shell.expand import Expander

# Shell integers are 64 bits wide; an exponent that leaves them is not computed at all.
LIMIT = 2**63
MAX_EXPONENT = 64
MAX_DEPTH = 200


class _UnknownError(Exception):
    pass


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _power(left: int, right: int) -> int:
    if not 0 <= right <= MAX_EXPONENT:
        raise _UnknownError(f"exponent {right}")
    return int(left**right)


def _shift_left(left: int, right: int) -> int:
    if not 0 <= right < MAX_EXPONENT:
        raise _UnknownError(f"shift by {right}")
    return left << right


_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
    "**": _power,
    "<<": _shift_left,
    ">>": lambda left, right: left >> min(max(right, 0), MAX_EXPONENT),
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": lambda left, right: int(left < right),
    ">": lambda left, right: int(left > right),
    "<=": lambda left, right: int(left <= right),
    ">=": lambda left, right: int(left >= right),
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "&&": lambda left, right: int(bool(left and right)),
    "||": lambda left, right: int(bool(left or right)),
}


_ASSIGNING = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="})


def arithmetic(expander: Expander, node: Node) -> str | Unresolved:
    """The decimal text of ``$((...))``, or why it is not known."""
    try:
        inner = [child for child in node.children if child.is_named]
        if len(inner) != 1:
            raise _UnknownError("an expression of several parts")
        written = list(assigned(expander, inner[0]))
        if written:
            for name in written:
                expander.forget(name, expander.text(node))
            raise _UnknownError("it changes a variable")
        return str(_compute(expander, inner[0], 0))
    except (_UnknownError, ZeroDivisionError) as error:
        return Unresolved(expander.text(node), str(error) or "an expression that is not constant")
    except (ValueError, IndexError):  # the grammar made something of it that has other parts
        return Unresolved(expander.text(node), "an expression that was not understood")


def computed(expander: Expander, node: Node) -> int | None:
    """The value of an expression that changes nothing; None where it does, or is not known."""
    try:
        return None if list(assigned(expander, node)) else _compute(expander, node, 0)
    except (_UnknownError, ZeroDivisionError, ValueError, IndexError):
        return None


def assigned(expander: Expander, node: Node) -> Iterator[str]:
    """The variables that an arithmetic expression changes."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        signs = {expander.text(child) for child in part.children if not child.is_named}
        steps = part.type in ("postfix_expression", "unary_expression") and signs & {"++", "--"}
        if (signs & _ASSIGNING or steps or part.type == "variable_assignment") and part.type != "variable_name":
            names = [child for child in part.children if child.type in ("variable_name", "word", "subscript")]
            yield from (expander.text(child).partition("[")[0] for child in names[:1])
        waiting.extend(part.children)


def assignment(expander: Expander, node: Node) -> tuple[str, str] | None:
    """The variable that ``NAME = ...``, ``NAME += ...``, ``NAME++`` or ``NAME--`` sets, and its value; None for any
    other expression, or where the value is not known."""
    names = list(assigned(expander, node))
    if len(names) != 1 or node.children[0].type not in ("variable_name", "word"):
        return None
    sign = expander.text(node.children[1]) if len(node.children) > 1 else ""
    try:
        if sign in ("++", "--"):
            return names[0], str(_number(expander, node.children[0]) + (1 if sign == "++" else -1))
        if sign not in _ASSIGNING or len(node.children) != 3:
            return None
        value = _compute(expander, node.children[2], 0)
        if sign != "=":
            value = _BINARY[sign[:-1]](_number(expander, node.children[0]), value)
    except (_UnknownError, ZeroDivisionError, ValueError, IndexError):
        return None
    return (names[0], str(value)) if -LIMIT <= value < LIMIT else None


def _compute(expander: Expander, node: Node, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise _UnknownError("nested too deeply")
    kind = node.type
    if kind == "binary_expression":
        left, sign, right = node.children
        found = _BINARY.get(expander.text(sign))
        if found is None:
            raise _UnknownError(f"operator {expander.text(sign)}")
        value = found(_compute(expander, left, depth + 1), _compute(expander, right, depth + 1))
    elif kind == "parenthesized_expression":
        value = _compute(expander, node.children[1], depth + 1)
    elif kind == "unary_expression":
        if node.children[1].type in ("binary_expression", "ternary_expression"):
            raise _UnknownError("a sign that the grammar takes for that of the whole sum")
        inner = _compute(expander, node.children[1], depth + 1)
        value = {"-": -inner, "+": inner, "!": int(not inner), "~": ~inner}.get(expander.text(node.children[0]), inner)
    elif kind == "ternary_expression":
        condition, yes, no = (child for child in node.children if child.is_named)
        value = _compute(expander, yes if _compute(expander, condition, depth + 1) else no, depth + 1)
    elif kind in ("variable_name", "word", "number", "simple_expansion", "expansion", "string", "arithmetic_expansion"):
        value = _number(expander, node)
    else:
        raise _UnknownError(f"{expander.text(node)[:60]} is not constant")
    if not -LIMIT <= value < LIMIT:
        raise _UnknownError("a number beyond 64 bits")
    return value


def _number(expander: Expander, node: Node) -> int:
    name = expander.text(node)
    text: str | Unresolved
    if node.type in ("variable_name", "word") and not name.isdecimal():
        variable = expander.lookup(name)
        if variable is None:
            raise _UnknownError(f"{name} is not set in this file")
        text = variable.value
    else:
        text = expander.word(node).value
    if isinstance(text, Unresolved):
        raise _UnknownError(text.why)
    try:
        return int(text.strip() or "0", 0 if text.strip().lower().startswith("0x") else 10)
    except ValueError:
        raise _UnknownError(f"{text[:60]!r} is not a whole number") from None
