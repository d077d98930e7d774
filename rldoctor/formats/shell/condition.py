"""Judges shell conditions whose operands are known: string and number comparisons, empty or not."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rldoctor.formats.values import Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node

    from rldoctor.formats.shell.expand import Expander

_NUMERIC = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def condition(expander: Expander, node: Node) -> bool | None:
    """Whether a condition holds, or None where reading does not tell."""
    if node.type == "test_command":
        named = [child for child in node.children if child.is_named]
        return _test(expander, named[0]) if len(named) == 1 else None
    if node.type == "negated_command" and len(node.children) == 2:
        return _not(condition(expander, node.children[1]))
    if node.type == "list" and len(node.children) == 3:
        left, right = condition(expander, node.children[0]), condition(expander, node.children[2])
        return _joined(left, right, expander.text(node.children[1]))
    if node.type == "compound_statement":
        named = [child for child in node.children if child.is_named]
        return condition(expander, named[0]) if len(named) == 1 else None
    if node.type == "command" and expander.text(node) in ("true", "false", ":"):
        return expander.text(node) != "false"
    return None


def _test(expander: Expander, node: Node) -> bool | None:
    if node.type == "parenthesized_expression" and len(node.children) == 3:
        return _test(expander, node.children[1])
    if node.type == "unary_expression" and len(node.children) == 2:
        sign = expander.text(node.children[0])
        if sign == "!":
            return _not(_test(expander, node.children[1]))
        value = "" if _is_unset(expander, node.children[1]) else _value(expander, node.children[1])
        return None if value is None or sign not in ("-z", "-n") else (value == "") == (sign == "-z")
    if node.type == "binary_expression" and len(node.children) == 3:
        return _binary(expander, *node.children)
    value = _value(expander, node)
    return None if value is None else value != ""


def _binary(expander: Expander, left: Node, sign_node: Node, right: Node) -> bool | None:
    sign = expander.text(sign_node)
    if sign in ("&&", "||", "-a", "-o"):
        return _joined(_test(expander, left), _test(expander, right), {"-a": "&&", "-o": "||"}.get(sign, sign))
    one, two = _value(expander, left), _value(expander, right)
    if one is None or two is None:
        return None
    if sign in ("=", "==", "!="):
        if right.type == "extglob_pattern" and any(mark in two for mark in "*?["):
            return fnmatchcase(one, two) == (sign != "!=")
        return (one == two.strip("\"'")) == (sign != "!=")
    compare = _NUMERIC.get(sign)
    if compare is None or not _is_number(one) or not _is_number(two):
        return None
    return bool(compare(int(one), int(two)))


def _value(expander: Expander, node: Node) -> str | None:
    value = expander.word(node).value
    return None if isinstance(value, Unresolved) else value


def _is_unset(expander: Expander, node: Node) -> bool:
    """Whether the operand is one variable that the script never sets: as with ``${X:-default}``, the file alone
    counts."""
    name = re.fullmatch(r"\"?\$\{?([A-Za-z_]\w*)\}?\"?", expander.text(node))
    return name is not None and expander.lookup(name[1]) is None


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdigit() and len(text) < 20


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _joined(left: bool | None, right: bool | None, sign: str) -> bool | None:
    decisive = sign == "||"
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def if_choices(node: Node) -> list[tuple[list[Node] | None, list[Node]]]:
    """The branches of an ``if``: each its condition (None for ``else``) and its statements."""
    choices: list[tuple[list[Node] | None, list[Node]]] = []
    for part in (node, *(child for child in node.children if child.type in ("elif_clause", "else_clause"))):
        inner = [c for c in part.children if c.type not in ("elif_clause", "else_clause")]
        if part.type == "else_clause":
            choices.append((None, inner))
            continue
        then = next((i for i, c in enumerate(inner) if c.type == "then"), len(inner))
        choices.append(([c for c in inner[:then] if c.is_named], inner[then:]))
    return choices


def case_choices(node: Node) -> list[tuple[list[Node] | None, list[Node]]]:
    """The branches of a ``case``: each its patterns and its statements."""
    choices: list[tuple[list[Node] | None, list[Node]]] = []
    for item in (child for child in node.children if child.type == "case_item"):
        close = next((i for i, c in enumerate(item.children) if c.type == ")"), len(item.children))
        patterns = [c for c in item.children[:close] if c.is_named]
        choices.append((patterns, item.children[close:]))
    return choices
