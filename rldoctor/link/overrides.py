"""Whether a class's methods take what the class of another package, whose methods they replace, passes to them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache

from rldoctor.link.calls import Misfit, binds, is_assigned, unfit
from rldoctor.link.provided import Definition
from rldoctor.link.sources import Sources
from rldoctor.records import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Override:
    """A method that stands for one of the class ``above`` and does not fit how that calls it."""

    method: Function
    misfit: Misfit


def unfit_overrides(
    sources: Sources, above: Definition, below: ast.ClassDef, replaced: Collection[str]
) -> Iterator[Override]:
    """What the methods of the class ``above`` pass to those that ``below`` puts in their place, and these do not take,
    or what these require and do not get. Only methods that are defined in both count, and only calls by those that
    still run: none that are ``replaced``."""
    assert isinstance(above.node, ast.ClassDef)
    called = (f"self.{name}(" in above.source.text for name in _methods(above.node).keys() & _methods(below).keys())
    whole = sources.whole(above.source.name) if any(called) else None
    classes = (n for n in (whole.tree.body if whole is not None else ()) if isinstance(n, ast.ClassDef))
    base = next((n for n in classes if n.name == above.node.name), None)
    if base is None:
        return
    inherited, own = _methods(base), _methods(below)
    bound = Counter(name for part in below.body for name in binds(part))
    shared = {
        name
        for name in own.keys() & inherited.keys()
        if not own[name].decorator_list and bound[name] == 1 and not is_assigned(above.source, name)
    }
    for caller, function in inherited.items():
        if caller in replaced:
            continue
        for name, call in _calls_of_its_own(function):
            if name in shared:
                yield from (Override(own[name], misfit) for misfit in unfit(own[name].args, 1, call))


def _methods(node: ast.ClassDef) -> dict[str, Function]:
    return {n.name: n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


@lru_cache(maxsize=1024)  # many classes of one trainer stand below the same one
def _calls_of_its_own(function: Function) -> tuple[tuple[str, ast.Call], ...]:
    """The calls of ``self.name``, each with the name."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return tuple((name, call) for call in calls if (name := _own(call.func)))


def _own(node: ast.expr) -> str:
    """``name`` of ``self.name``."""
    mine = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if mine and isinstance(node, ast.Attribute) else ""
