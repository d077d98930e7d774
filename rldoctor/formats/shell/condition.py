"""Which branches of a shell script its own text decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rldoctor.formats.shell.arithmetic import computed
from rldoctor.formats.shell.parameter import pattern
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
_EQUAL = ("=", "==", "!=")
_QUOTED = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})


def condition(expander: Expander, node: Node) -> bool | None:
    """Whether a condition holds, or None where reading does not tell."""
    if node.type == "test_command":
        named = [child for child in node.children if child.is_named]
        if expander.text(node.children[0]) == "((":
            return _arithmetic(expander, named)
        return _test(expander, named[0], expander.text(node.children[0]) == "[[") if len(named) == 1 else None
    if node.type == "negated_command" and len(node.children) == 2:
        return _not(condition(expander, node.children[1]))
    if node.type == "list" and len(node.children) == 3:
        left, right = condition(expander, node.children[0]), condition(expander, node.children[2])
        return joined(left, right, expander.text(node.children[1]))
    if node.type == "compound_statement":
        named = [child for child in node.children if child.is_named]
        if expander.text(node.children[0]) == "((":
            return _arithmetic(expander, named)
        return condition(expander, named[0]) if len(named) == 1 else None
    if node.type == "redirected_statement" and node.children:
        return condition(expander, node.children[0])
    if node.type == "command" and expander.text(node) in ("true", "false", ":"):
        return expander.text(node) != "false"
    words = plain_words(expander, node)
    return expander.machine.succeeds(words) if words else None


def plain_words(expander: Expander, node: Node) -> list[str] | None:
    """The words of a simple command, all of them known; None for any other statement."""
    if node.type == "redirected_statement" and node.children:
        node = node.children[0]
    if node.type != "command" or node.has_error:
        return None
    found: list[str] = []
    for child in node.children:
        if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect", "variable_assignment"):
            return None
        for word in expander.words(child):
            if not isinstance(word.value, str):
                return None
            found.append(word.value)
    return found


def fits(expander: Expander, value: str, nodes: Sequence[Node]) -> bool | None:
    """Whether a text fits the pattern that ``nodes`` write one after the other, or None where reading does not tell."""
    parts = [_expression(expander, node) for node in nodes]
    known = [part for part in parts if part is not None]
    return re.fullmatch("".join(known), value) is not None if len(known) == len(parts) else None


def alternatives(nodes: Iterable[Node]) -> list[list[Node]]:
    """The patterns of a branch: what is written without a gap is one of them."""
    found: list[list[Node]] = []
    for node in nodes:
        if found and found[-1][-1].end_byte == node.start_byte:
            found[-1].append(node)
        else:
            found.append([node])
    return found


def _expression(expander: Expander, node: Node) -> str | None:
    """A piece of a pattern as a regular expression; what is quoted in it stands for itself."""
    text = expander.text(node)
    if node.type == "concatenation":
        parts = [_expression(expander, child) for child in node.children]
        return None if None in parts else "".join(part for part in parts if part is not None)
    if node.type in _QUOTED or re.search(r"[$`\\'\"]", text):
        literal = expander.word(node).value
        if isinstance(literal, Unresolved) or (node.type not in _QUOTED and re.search(r"[*?\[]", literal)):
            return None
        return re.escape(literal)
    return pattern(text)


def _arithmetic(expander: Expander, named: list[Node]) -> bool | None:
    value = computed(expander, named[0]) if len(named) == 1 else None
    return None if value is None else value != 0


def _test(expander: Expander, node: Node, double: bool) -> bool | None:
    if node.type == "parenthesized_expression" and len(node.children) == 3:
        return _test(expander, node.children[1], double)
    if node.type == "unary_expression" and len(node.children) == 2:
        sign = expander.text(node.children[0])
        if sign == "!":
            return _not(_test(expander, node.children[1], double))
        if sign not in ("-z", "-n"):
            return None
        value = _value(expander, node.children[1], double, empty=sign == "-z")
        return None if value is None else (value == "") == (sign == "-z")
    if node.type == "binary_expression":
        left, sign_node, *right = node.children
        return _binary(expander, left, sign_node, right, double) if len(alternatives(right)) == 1 else None
    value = _value(expander, node, double, empty=True)
    return None if value is None else value != ""


def _binary(expander: Expander, left: Node, sign_node: Node, rest: Sequence[Node], double: bool) -> bool | None:
    sign, right = expander.text(sign_node), rest[0]
    if sign in ("&&", "||", "-a", "-o"):
        one, two = _test(expander, left, double), _test(expander, right, double)
        return joined(one, two, {"-a": "&&", "-o": "||"}.get(sign, sign))
    one_value = _value(expander, left, double)
    if one_value is None or (len(rest) > 1 and not (double and sign in _EQUAL)):
        return None
    if sign in _EQUAL:
        if double:
            verdict = fits(expander, one_value, rest)
        else:
            other = _value(expander, right, double)
            verdict = None if other is None else one_value == other
        return verdict if sign != "!=" else _not(verdict)
    compare, two_value = _NUMERIC.get(sign), _value(expander, right, double)
    if compare is None or two_value is None or not _is_number(one_value) or not _is_number(two_value):
        return None
    return bool(compare(int(one_value), int(two_value)))


def _value(expander: Expander, node: Node, double: bool, empty: bool = False) -> str | None:
    """The text of an operand; of a variable that nothing sets, the empty one: as with ``${X:-default}``, the file alone
    counts. Within single brackets what is not quoted falls apart, or away, so that ``empty`` must allow for it."""
    name = re.fullmatch(r"\"?\$\{?([A-Za-z_]\w*)\}?\"?", expander.text(node))
    if name is not None and expander.lookup(name[1]) is None:
        value: str | Unresolved = "" if not expander.sets_itself(name[1]) else Unresolved("", "")
    else:
        value = expander.word(node).value
    if isinstance(value, Unresolved):
        return None
    bare = not double and node.type not in _QUOTED
    if bare and (re.search(r"[\s*?\[]", value) or (value == "" and not empty)):
        return None
    return value


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[-+]?(0|[1-9]\d{0,17})\s*", text) is not None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def joined(left: bool | None, right: bool | None, sign: str) -> bool | None:
    """What two conditions come to with ``&&`` or ``||`` between them."""
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
