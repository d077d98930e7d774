"""The names that a module's own statements bind, and whether it may have others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.link.sources import Source


@dataclass
class Names:
    """The names that a module's statements may bind, whichever branch runs. ``open`` says that names beyond them can
    exist, which stand somewhere in the package's text: a ``__getattr__``, a lazy module, ``globals().update``;
    ``computed`` that they need not, as with ``globals()[name] = ...``."""

    bound: dict[str, ast.stmt] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    open: bool = False
    computed: bool = False


def names_of(source: Source) -> Names:
    """What the statements of a module bind."""
    found = Names()
    walrus, opening = ":=" in source.text, any(mark in source.text for mark in _MARKS)
    for node in _executed(source.tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.bound.setdefault(node.name, node)
            found.open = found.open or node.name == "__getattr__"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found.bound.setdefault(alias.asname or alias.name.partition(".")[0], node)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    found.stars.append(source.origin(node))
                else:
                    found.bound.setdefault(alias.asname or alias.name, node)
        else:
            for target in _targets(node, walrus):
                found.bound.setdefault(target, node)
            found.open = found.open or (opening and _opens(node))
            found.computed = found.computed or (opening and _computes(node))
    return found


def _executed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement that may run on import, blocks opened."""
    for node in body:
        yield node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _executed(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            yield from _executed(handler.body)
        for case in getattr(node, "cases", []):
            yield from _executed(case.body)


def _targets(node: ast.stmt, walrus: bool) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    for target in targets:
        yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    for part in ast.walk(node) if walrus and not hasattr(node, "body") else ():
        if isinstance(part, ast.NamedExpr):
            yield part.target.id


_OPENING = frozenset({"globals", "locals", "vars", "setattr", "exec", "_LazyModule", "LazyModule", "attach"})
# What stands in a text in which some statement opens; most texts need not be walked through for it.
_MARKS = (*(f"{name}(" for name in _OPENING if "azy" not in name), "azy", "AZY", ".modules")


def _computes(node: ast.stmt) -> bool:
    """Whether a statement binds a name of the module that is worked out first: ``globals()[name] = ...``."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Name):
        return False
    owner = target.value
    return isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "globals"


def _opens(node: ast.stmt) -> bool:
    """Whether a statement can add names that its text does not show, as ``globals()[...]`` does."""
    if hasattr(node, "body"):
        return False
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            called = part.func.id if isinstance(part.func, ast.Name) else getattr(part.func, "attr", "")
            if called in _OPENING or "lazy" in called.lower():
                return True
        if isinstance(part, ast.Attribute) and part.attr == "modules" and isinstance(part.ctx, ast.Load):
            return isinstance(node, ast.Assign)
    return False
