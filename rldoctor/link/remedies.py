"""What would keep a package from raising, read off the condition under which it does.

``self.async_generate and not self.vllm_mode == 'server'`` raises no more with ``vllm_mode`` set to ``server``, nor
with ``async_generate`` left off. Only settings are told: options of the package's releases, and what a request is made
of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from rldoctor.frameworks.option_table import OptionTable
from rldoctor.io import untrusted
from rldoctor.link.syntax import last_name
from rldoctor.records import dataclass

_MOST = 3
_LONGEST = 160
# Classes of a request's parameters, which no table of options has.
_REQUEST = re.compile(r"Param(?:eter)?s$")
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_WORDS: dict[type[ast.cmpop], str] = {
    ast.Lt: "give {} a value below {}",
    ast.LtE: "give {} a value of at most {}",
    ast.Gt: "give {} a value above {}",
    ast.GtE: "give {} a value of at least {}",
    ast.Eq: "set {} to {}",
    ast.NotEq: "give {} another value than {}",
    ast.In: "give {} one of {}",
    ast.NotIn: "give {} none of {}",
}
# With these the value itself is what to write.
_EXACT = (ast.LtE, ast.GtE, ast.Eq)


@dataclass(frozen=True)
class Remedy:
    """One way out, in words; ``value`` is what the setting ``name`` has to be, None where that is not one value."""

    text: str
    name: str
    value: object = None


def remedies(
    package: str, function: str, conditions: Sequence[str], message: str, values: Mapping[str, str] | None = None
) -> tuple[Remedy, ...]:
    """What to change, each by itself enough; empty where the condition that was asked last tells nothing.

    ``function`` of the ``package`` is where it raises, ``conditions`` are those around the place, outermost first;
    ``values`` are the words of the ``message`` by the expressions that gave them."""
    tests = list(_asked_last_first(conditions))
    reader = _Reader(package, function, values or {})
    ways = [reader.wanted(test, False) for test in tests]
    if not all(ways):
        # What stands beside a test that is none of settings may only open the question: what is compared is asked.
        compared = (i for i, test in enumerate(tests) if not _is_compared(test))
        ways = ways[: next(compared, len(ways))]
    found = [way for some in ways[: ways.index(()) if () in ways else None] for way in some]
    # What the message speaks of first is what it is about.
    found.sort(key=lambda way: message.find(way.name) % (len(message) + 1))
    return tuple(dict.fromkeys(found))[:_MOST]


def is_request(function: str) -> bool:
    """Whether a function judges one request's parameters, and no option of the launch."""
    return _REQUEST.search(function.rpartition(".")[0]) is not None


def _asked_last_first(conditions: Sequence[str]) -> Iterator[ast.expr]:
    """All that held when a place raised; ``conditions`` are those around it, outermost first."""
    for condition in reversed(conditions):
        try:
            tree = untrusted.python(condition).body[0]
        except (SyntaxError, ValueError, RecursionError, IndexError):
            return
        if not isinstance(tree, ast.Expr):
            return
        test = tree.value
        all_of = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        yield from reversed(all_of)


def _is_compared(test: ast.expr) -> bool:
    """Whether a test compares a value: neither a flag nor whether something is given at all."""
    while isinstance(test, ast.UnaryOp):
        test = test.operand
    return isinstance(test, ast.Compare) and ast.unparse(test.comparators[-1]) != "None"


class _Reader:
    """Puts tests of settings into words."""

    def __init__(self, package: str, function: str, values: Mapping[str, str]) -> None:
        self.values = values
        self.options = _options(package)
        self.of_request = is_request(function)

    def wanted(self, test: ast.expr, outcome: bool) -> tuple[Remedy, ...]:
        """The ways to make a test come out as wished, each enough."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.wanted(test.operand, not outcome)
        if isinstance(test, ast.BoolOp):
            parts = [self.wanted(part, outcome) for part in test.values]
            if isinstance(test.op, ast.And) is not outcome:
                return tuple(way for part in reversed(parts) for way in part)
            # All of them have to: settings that depend on each other are for a person.
            return parts[0] if len({way for part in parts for way in part}) == 1 and all(parts) else ()
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return tuple(self._compared(test, outcome))
        name = self._setting(test)
        return () if name is None else (Remedy(f"set {name}" if outcome else f"leave {name} off", name, outcome),)

    def _compared(self, test: ast.Compare, outcome: bool) -> Iterator[Remedy]:
        (asked,), (right,), left = test.ops, test.comparators, test.left
        wish = type(asked) if outcome else _NEGATED[type(asked)]
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
            divided, (said, _) = self._setting(left.left), self._said(left.right)
            if divided is not None and said and wish is ast.Eq and ast.unparse(right) == "0":
                yield Remedy(f"give {divided} a multiple of {said}", divided)
            return
        if isinstance(right, ast.Constant) and right.value is None:
            name = self._setting(left)
            if name is not None:
                left_out = wish in (ast.Is, ast.Eq)
                yield Remedy(f"leave {name} out" if left_out else f"give {name}", name)
            return
        yield from self._between(left, wish, right)
        if wish in _MIRRORED:
            yield from self._between(right, _MIRRORED[wish], left)

    def _between(self, subject: ast.expr, wish: type[ast.cmpop], other: ast.expr) -> Iterator[Remedy]:
        name, (said, value) = self._setting(subject), self._said(other)
        if name is not None and said and wish in _WORDS:
            yield Remedy(_WORDS[wish].format(name, said), name, value if wish in _EXACT else None)

    def _setting(self, node: ast.expr) -> str | None:
        """The name of a setting, None where the expression is none."""
        name = last_name(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            name = str(node.args[0].value) if node.args and isinstance(node.args[0], ast.Constant) else ""
        of_request = self.of_request and isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
        return name if name in self.options or (of_request and not name.startswith("_")) else None

    def _said(self, node: ast.expr) -> tuple[str, object]:
        """What to call the other side, and its value where the message or the source has it; empty where neither has
        and it is no setting."""
        if isinstance(node, ast.Constant):
            return ast.unparse(node), node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            text = ", ".join(map(ast.unparse, node.elts))
            return (text if len(text) <= _LONGEST else ""), None
        name, shown = self._setting(node), self.values.get(ast.unparse(node), "")
        if not shown or len(shown) > _LONGEST:
            return name or "", None
        value = int(shown) if re.fullmatch(r"\d{1,15}", shown) else None
        return (f"{shown} ({name})" if name is not None else shown), value


@cache
def _options(package: str) -> frozenset[str]:
    try:
        return OptionTable.load(package).ends()
    except KeyError:
        return frozenset()
