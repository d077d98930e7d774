"""Small questions to Python syntax: what a statement defines, what an expression is called, what a body is made of."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeGuard

ENUMERATIONS = frozenset({"Enum", "StrEnum", "IntEnum"})


def defined_as(body: Iterable[ast.stmt], name: str) -> ast.stmt | None:
    """The class or function of this name, whatever its case."""
    defined = (n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef))
    return next((n for n in defined if n.name.lower() == name.lower()), None)


def quoted(node: ast.expr) -> str | None:
    """The text that stands there."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def last_name(node: ast.expr | None) -> str:
    """``name`` of ``name`` and of ``some.name``; else empty."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def parts_of_type(node: ast.expr) -> Iterator[ast.expr]:
    """The types that ``A | B`` and ``(A, B)`` name."""
    if isinstance(node, ast.BinOp):
        yield from (*parts_of_type(node.left), *parts_of_type(node.right))
    elif isinstance(node, ast.Tuple):
        yield from node.elts
    else:
        yield node


def parts_of_list(node: ast.expr) -> list[ast.expr]:
    """The items of a list, tuple or set as it stands there; of anything else itself."""
    return node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]


def own_name(node: ast.AST) -> str | None:
    """``name`` of ``self.name``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


def parts_of(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Everything in statements but the bodies of functions defined there."""
    for node in body:
        left: list[ast.AST] = [node]
        while left:
            part = left.pop()
            yield part
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                left += ast.iter_child_nodes(part)


def gives(node: ast.stmt, name: str) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    """Whether a statement gives this name a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def yields(function: ast.FunctionDef) -> bool:
    """Whether calling a function gives a generator."""
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in parts_of(function.body))


def validates_raw(decorator: ast.expr) -> bool:
    """Whether a decorator makes a method one to which pydantic hands what is given, before it makes an object of it."""
    text = ast.unparse(decorator)
    return bool(re.search(r"model_validator\(.*before|root_validator\(.*pre=True", text))


def validates(decorator: ast.expr) -> bool:
    """Whether a decorator makes a method one that pydantic runs once the fields are set."""
    return "model_validator" in ast.unparse(decorator) and "after" in ast.unparse(decorator)


def validated_fields(function: ast.FunctionDef, before: bool) -> list[str]:
    """The fields whose values pydantic hands to a method, before or after their types have read them; not those that
    it wraps, or of which it gets the items."""
    found: list[str] = []
    for one in function.decorator_list:
        if isinstance(one, ast.Call) and last_name(one.func) in ("field_validator", "validator"):
            modes = {k.arg: ast.literal_eval(k.value) for k in one.keywords if isinstance(k.value, ast.Constant)}
            early = modes.get("mode") in ("before", "plain") or modes.get("pre") is True
            if early is before and modes.get("mode") != "wrap" and not modes.get("each_item"):
                found += filter(None, map(quoted, one.args))
    return found


def set_before(classes: list[ast.ClassDef]) -> Iterator[str]:
    """The fields that methods may set in what is given, before pydantic makes an object of it."""
    for function in (part for node in classes for part in node.body if isinstance(part, ast.FunctionDef)):
        marks = " ".join(map(ast.unparse, function.decorator_list))
        if not re.search(r"model_validator\(.*(before|wrap)|root_validator\(.*pre=True", marks):
            continue
        for part in parts_of(function.body):
            if isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
                yield from filter(None, [quoted(part.slice)])
            elif isinstance(part, ast.Call) and last_name(part.func) in ("pop", "setdefault", "update"):
                keys = [k for one in part.args if isinstance(one, ast.Dict) for k in one.keys if k is not None]
                yield from filter(None, (*map(quoted, [*part.args, *keys]), *(k.arg for k in part.keywords)))


def hands_on(classes: list[ast.ClassDef]) -> bool:
    """Whether a method that pydantic calls with all that is given hands it to other code, which may set any field."""
    for function in (part for node in classes for part in node.body if isinstance(part, ast.FunctionDef)):
        whole = function.args.args[1].arg if len(function.args.args) > 1 else ""
        for part in parts_of(function.body) if whole and any(map(validates_raw, function.decorator_list)) else ():
            passed = [last_name(one) for one in part.args] if isinstance(part, ast.Call) else []
            if isinstance(part, ast.Call) and whole in passed and last_name(part.func) not in ("isinstance", "len"):
                return True
    return False


def constants_of(tree: ast.Module) -> dict[str, ast.expr]:
    """The numbers, texts and lists of such that a module gives to names, each once and changed nowhere in it."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            plain = all(isinstance(part, ast.Constant) for part in parts_of_list(node.value))
            found |= {node.targets[0].id: node.value} if plain else {}
    stored: Counter[str] = Counter()
    for part in ast.walk(tree) if found else ():
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            stored[part.id] += 1
        elif isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.value, ast.Name):
            found.pop(part.value.id, None)
    return {name: value for name, value in found.items() if stored[name] == 1}


def texts_of(node: ast.ClassDef) -> dict[str, str]:
    """The members of an enumeration that are texts as they stand; none where one has to be worked out."""
    found: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            names, value = [last_name(target) for target in statement.targets], quoted(statement.value)
            if len(names) != 1 or value is None:
                return {}
            found[names[0]] = value
    return found


def _first_below_self(node: ast.expr) -> str | None:
    """``data`` of ``self.data.seed``."""
    while isinstance(node, ast.Attribute) and own_name(node) is None:
        node = node.value
    return own_name(node)


def set_on_the_way(classes: list[ast.ClassDef], method: str) -> Iterator[str]:
    """The fields that ``__post_init__``, a method that is called next, and the methods and properties that these lead
    to may set, and those that a list of the class names."""
    methods: dict[str, list[ast.stmt]] = {}
    for statement in (statement for node in classes for statement in node.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            methods.setdefault(statement.name, []).extend(statement.body)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.List | ast.Tuple):
            yield from filter(None, map(quoted, statement.value.elts))
    marked = (n for node in classes for n in node.body if isinstance(n, ast.FunctionDef))
    checks = [function.name for function in marked if any(map(validates, function.decorator_list))]
    reached, left = set[str](), ["__post_init__", method, *checks]
    while left:
        name = left.pop()
        if name in reached:
            continue
        reached.add(name)
        for part in parts_of(methods.get(name, [])):
            if isinstance(part, ast.Attribute):
                left += [part.attr] if part.attr in methods else []
                if isinstance(part.ctx, ast.Store) and (named := _first_below_self(part)) is not None:
                    yield named
            elif isinstance(part, ast.Call) and last_name(part.func) == "setattr":
                yield from filter(None, map(quoted, part.args))
