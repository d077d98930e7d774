"""What comes before a place in a function: whether it is reached wherever the tests around it hold, and which fields
may have another value by then than the object was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from rldoctor.link.syntax import last_name, own_name, parts_of, quoted
from rldoctor.records import dataclass

_MADE = ("__init__", "__post_init__")  # what runs when an object is made, beside its validators
_ANY = "*"  # a field whose name is computed
_ROUNDS = 8  # methods that call methods that set fields


@dataclass(frozen=True)
class Way:
    """``sure``: no return may have come before, and no error is caught. ``changed`` are the fields that may have been
    set; one that is set where it was None is as it was given. ``called``: the function certainly runs."""

    sure: bool = True
    changed: frozenset[str] = frozenset()
    called: bool = True

    def changes(self, read: set[str]) -> bool:
        """Whether a field of these names may have another value than the object was given."""
        return _ANY in self.changed or bool(read & self.changed)


ASIDE = Way(sure=False)
Methods = Mapping[str, frozenset[str]]


def ways(body: list[ast.stmt], start: Way, methods: Methods) -> dict[ast.stmt, Way]:
    """What comes before each statement of a function that starts where ``start`` tells; ``methods`` are the fields that
    each method of its class sets."""
    found: dict[ast.stmt, Way] = {}
    _through(body, start, frozenset(), methods, found)
    return found


def methods_of(node: ast.ClassDef) -> Methods:
    """The fields that each method of a class may set, with those that it calls, and those that its lists name."""
    known: dict[str, frozenset[str]] = {}
    for one in node.body:
        if isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(one.value, ast.List | ast.Tuple):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            known |= dict.fromkeys(map(last_name, targets), _quoted_in(one.value))
    functions = list(_functions(node))
    known |= {one.name: frozenset() for one in functions}
    for _ in range(_ROUNDS):
        before = dict(known)
        for one in functions:
            known[one.name] |= _through(one.body, Way(), frozenset(), before, {}).changed
        if known == before:
            break
        # What a method sets by itself is known after the first time.
        functions = [one for one in functions if any(own_name(part) in known for part in ast.walk(one))]
    return known


def entered(node: ast.ClassDef, methods: Methods) -> dict[str, Way]:
    """The methods that run for every object of a class when it is made, and what comes before each."""
    functions = {one.name: one for one in _functions(node)}
    everything = frozenset().union(*methods.values())
    left = [(name, Way()) for name in _MADE if name in functions]
    left += [(one.name, Way(changed=everything)) for one in functions.values() if _validates(one)]
    found: dict[str, Way] = {}
    while left:
        name, way = left.pop(0)
        if name in found:
            continue
        found[name] = way
        for statement, before in ways(functions[name].body, way, methods).items():
            call = statement.value if isinstance(statement, ast.Expr) else None
            called = own_name(call.func) if isinstance(call, ast.Call) else None
            if called in functions and statement in functions[name].body and before.sure:
                left.append((called or "", before))
    return found


def _functions(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (one for one in node.body if isinstance(one, ast.FunctionDef))


def _validates(function: ast.FunctionDef) -> bool:
    return any("validator" in ast.unparse(one) for one in function.decorator_list)


def _through(
    body: list[ast.stmt], way: Way, missing: frozenset[str], methods: Methods, found: dict[ast.stmt, Way]
) -> Way:
    for node in body:
        found[node] = way
        way = _after(node, way, missing, methods, found)
    return way


def _after(node: ast.stmt, way: Way, missing: frozenset[str], methods: Methods, found: dict[ast.stmt, Way]) -> Way:
    """What lies behind a statement; ``missing`` are the fields that are None here."""
    if isinstance(node, ast.If):
        way = Way(way.sure, way.changed | _sets(node.test, methods) - missing)
        branches = (
            _through(node.body, way, missing | _none(node.test), methods, found),
            _through(node.orelse, way, missing, methods, found),
        )
        return Way(all(one.sure for one in branches), branches[0].changed | branches[1].changed)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return way
    changed = way.changed | _sets(node, methods) - missing
    if isinstance(node, ast.With):
        way = Way(way.sure and "suppress" not in ast.unparse(node.items[0]), changed)
        return _through(node.body, way, missing, methods, found)
    parts = _parts(node)
    found |= dict.fromkeys(parts.within, Way(False, changed))
    return Way(way.sure and not parts.returns, changed)


@dataclass(frozen=True)
class _Parts:
    """What a statement or test holds: the fields that it certainly names to set, the calls of methods by their names
    and those of ``setattr``, the loops around these, the statements within it, and whether it may return."""

    stored: frozenset[str]
    called: frozenset[str]
    set_by_name: tuple[ast.expr, ...]
    loops: list[ast.For]
    within: tuple[ast.stmt, ...]
    returns: bool


@lru_cache(maxsize=10_000)
def _parts(node: ast.stmt | ast.expr) -> _Parts:
    """One walk for all questions: a class is asked several times what its methods set."""
    stored, called = set[str](), set[str]()
    set_by_name: list[ast.expr] = []
    loops: list[ast.For] = []
    within: list[ast.stmt] = []
    returns = False
    for part in parts_of([node]):  # type: ignore[list-item]
        if isinstance(part, ast.stmt):
            returns |= isinstance(part, ast.Return)
            loops += [part] if isinstance(part, ast.For) else []
            within += [part] if part is not node else []
        elif isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store | ast.Del):
            stored.add(part.attr if isinstance(part, ast.Attribute) else quoted(part.slice) or _ANY)
        elif isinstance(part, ast.Call) and last_name(part.func) == "setattr" and len(part.args) > 1:
            set_by_name.append(part.args[1])
        elif isinstance(part, ast.Call):
            called.add(own_name(part.func) or "")
    return _Parts(frozenset(stored), frozenset(called), tuple(set_by_name), loops, tuple(within), returns)


def _sets(node: ast.stmt | ast.expr, methods: Methods) -> frozenset[str]:
    """The fields that a statement may set, by their last names."""
    parts = _parts(node)
    found = parts.stored.union(*(methods.get(name, frozenset()) for name in parts.called))
    found = found.union(*(_named(name, parts.loops, methods) for name in parts.set_by_name))
    return found - {_same(node)} if found else found


def _named(name: ast.expr, loops: list[ast.For], methods: Methods) -> frozenset[str]:
    """The fields that a name may stand for: a text, or one of those that the loops around it go through."""
    text = quoted(name)
    through = [one.iter for one in loops if last_name(name) in {last_name(part) for part in _expressions(one.target)}]
    texts = [_quoted_in(one) | methods.get(own_name(one) or "", frozenset()) for one in through]
    if text is not None or not texts or not all(texts):
        return frozenset({text or _ANY})
    return frozenset().union(*texts)


def _quoted_in(node: ast.expr) -> frozenset[str]:
    return frozenset(text for part in _expressions(node) if (text := quoted(part)) is not None)


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    return (part for part in ast.walk(node) if isinstance(part, ast.expr))


def _same(node: ast.stmt | ast.expr) -> str:
    """The field that a statement gives what it has: ``self.x = ... if self.x is None else self.x``, and an
    enumeration's member of the same text, ``self.x = Kind(self.x)``."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return ""
    target, value = node.targets[0], node.value
    if isinstance(value, ast.IfExp):
        same = value.orelse if last_name(target) in _none(value.test) else None
    else:
        member = isinstance(value, ast.Call) and len(value.args) == 1 and last_name(value.func)[:1].isupper()
        same = value.args[0] if member and isinstance(value, ast.Call) else None
    return last_name(target) if same is not None and ast.unparse(same) == ast.unparse(target) else ""


def _none(test: ast.expr) -> frozenset[str]:
    """The fields that are None where a test holds."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return frozenset().union(*map(_none, test.values))
    compared = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is)
    none = compared and isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) == "None"
    return frozenset({last_name(test.left)}) if none and isinstance(test, ast.Compare) else frozenset()
