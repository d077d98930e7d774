"""The names among which a framework's code looks up the value of an option: lists, registries and comparisons that no
declaration of the option tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rldoctor.tables.options.parts import Listing
from rldoctor.tables.options.source import dotted
from rldoctor.tables.sources.trees import SourceTree


def listed(tree: SourceTree, listing: Listing) -> tuple[str, ...]:
    """The names that the tree has for a listing, sorted; none where it has no such place."""
    found: set[str] = set()
    for path, name in map(_split, listing.places):
        module = _parsed(tree, path)
        if module is not None and (names := set(_texts(module, name.split(".")))):
            found |= names
            break
    for folder, decorator in map(_split, listing.registered):
        for path in tree.names(folder):
            module = _parsed(tree, path) if path.endswith(".py") else None
            found |= set(_decorated(module, decorator)) if module is not None else set()
    for path, subject in map(_split, listing.compared):
        module = _parsed(tree, path)
        found |= set(_compared(module, subject)) if module is not None else set()
    for folder in listing.files:
        below = (path.removeprefix(f"{folder}/") for path in tree.names(folder) if path.endswith(".yaml"))
        found |= {name.removesuffix(".yaml") for name in below if "/" not in name}
    return tuple(sorted(found | set(listing.besides))) if found else ()


def _last(node: ast.expr) -> str:
    return (dotted(node) or "").rpartition(".")[2]


def _split(place: str) -> tuple[str, str]:
    path, _, name = place.partition(":")
    return path, name


def _parsed(tree: SourceTree, path: str) -> ast.Module | None:
    try:
        return ast.parse(tree.read(path) or "")
    except (SyntaxError, ValueError):
        return None


def _texts(node: ast.AST, names: list[str]) -> Iterator[str]:
    """The texts of what a name stands for: of a list or the keys of a dictionary (the first part of each, where they
    have several), of one that is made over a list, of a ``Literal``, of the members of an enumeration."""
    body = getattr(node, "body", [])
    for statement in body if len(names) > 1 else ast.walk(ast.Module(body, [])):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef) and statement.name == names[0]:
            yield from _texts(statement, names[1:]) if len(names) > 1 else _members(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and len(names) == 1:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if statement.value is not None and names[0] in map(_last, targets):
                yield from _of(statement.value)


def _members(node: ast.AST) -> Iterator[str]:
    for statement in getattr(node, "body", []):
        if isinstance(statement, ast.Assign):
            yield from _of(statement.value)


def _of(value: ast.expr) -> Iterator[str]:
    parts: list[ast.expr | None] = [value]
    if isinstance(value, ast.Dict):
        parts = [key.elts[0] if isinstance(key, ast.Tuple) and key.elts else key for key in value.keys]
    elif isinstance(value, ast.List | ast.Tuple | ast.Set):
        parts = list(value.elts)
    elif isinstance(value, ast.DictComp | ast.ListComp | ast.SetComp):
        yield from _of(value.generators[0].iter)
    elif isinstance(value, ast.Subscript) and _last(value.value) == "Literal":
        yield from _of(value.slice)
    yield from (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def _decorated(module: ast.Module, decorator: str) -> Iterator[str]:
    for node in ast.walk(module):
        for call in getattr(node, "decorator_list", []):
            named = isinstance(call, ast.Call) and _last(call.func) == decorator
            yield from _of(call.args[0]) if named and call.args else ()


def _compared(module: ast.Module, subject: str) -> Iterator[str]:
    for node in ast.walk(module):
        equal = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.In | ast.NotIn)
        if equal and isinstance(node, ast.Compare) and ast.unparse(node.left) == subject:
            listed = node.comparators[0]
            yield from _texts(module, [listed.id]) if isinstance(listed, ast.Name) else _of(listed)
