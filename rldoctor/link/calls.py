"""Whether a call fits the signature of what it calls: its keywords, the number of its positions, what is required."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rldoctor.link.provided import Definition, Provider
from rldoctor.link.sources import Source
from rldoctor.link.syntax import last_name
from rldoctor.records import dataclass

# Decorators that leave the signature as it is written.
_HARMLESS = frozenset({"no_grad", "inference_mode", "lru_cache", "cache", "contextmanager", "deprecated", "requires"})

_DEEPEST = 8  # classes above one another


@dataclass(frozen=True)
class Misfit:
    """``argument``: the callable takes no such keyword. ``missing-argument``: it requires one that is not given.
    ``positions``: it takes fewer by position than are given (``name`` is their number)."""

    kind: str
    name: str


def misfits(provider: Provider, definition: Definition, call: ast.Call) -> Iterator[Misfit]:
    """What Python would refuse, where the signature is certain."""
    found = _signature(provider, definition)
    if found is not None:
        yield from unfit(*found, call)


def unfit(arguments: ast.arguments, bound: int, call: ast.Call) -> Iterator[Misfit]:
    """What Python would refuse of a call of what has these parameters, the first ``bound`` of which are given
    already."""
    positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][bound:]
    only_positional = {a.arg for a in arguments.posonlyargs}
    keywords = [k.arg for k in call.keywords]
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    named = {*positional, *(a.arg for a in arguments.kwonlyargs)} - only_positional
    if arguments.kwarg is None:
        yield from (Misfit("argument", k) for k in keywords if k is not None and k not in named)
    if arguments.vararg is None and not starred and len(call.args) > len(positional):
        yield Misfit("positions", str(len(call.args)))
    if starred or None in keywords:
        return
    required = (
        positional[: len(positional) - len(arguments.defaults)] if len(arguments.defaults) <= len(positional) else []
    )
    given = {*positional[: len(call.args)], *keywords}
    required += [
        a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    yield from (Misfit("missing-argument", name) for name in required if name not in given)


def _signature(provider: Provider, definition: Definition, depth: int = 0) -> tuple[ast.arguments, int] | None:
    """The parameters of a function or of a class's ``__init__``, which may be inherited, and how many of them are bound
    already."""
    node = definition.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return (
            (node.args, 0)
            if all(last_name(d.func if isinstance(d, ast.Call) else d) in _HARMLESS for d in node.decorator_list)
            else None
        )
    if node.decorator_list or node.keywords:  # a dataclass, a metaclass: what is called is made elsewhere
        return None
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__new__":
            return None
    init = next((s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    if init is None:
        return _inherited(provider, definition, node, depth)
    return None if init.decorator_list else (init.args, 1)


def inherited_method(
    provider: Provider, module: str, node: ast.ClassDef, name: str
) -> tuple[Definition, ast.FunctionDef] | None:
    """The plain method that a class, which stands in ``module``, has from the only one above it or from those above
    that, behind the class that it stands in; None where it is not certain which."""
    for _ in range(_DEEPEST):
        if len(node.bases) != 1 or not isinstance(node.bases[0], ast.Name):
            return None
        above = provider.definition(module, node.bases[0].id)
        if above is None or not isinstance(above.node, ast.ClassDef):
            return None
        made = name == "__init__" and (above.node.decorator_list or above.node.keywords)  # a dataclass has its own
        if made or is_assigned(above.source, name):
            return None
        bound = [part for part in above.node.body if name in binds(part)]
        if bound:
            function = bound[0]
            alone = isinstance(function, ast.FunctionDef) and not function.decorator_list and len(bound) == 1
            return (above, function) if alone and isinstance(function, ast.FunctionDef) else None
        module, node = above.source.name, above.node
    return None


def is_assigned(source: Source, name: str) -> bool:
    """Whether a module may put something in the place of a method of that name, in a class or in an object."""
    forms = rf"\.{name} *(?::[^=\n]+)?=(?!=)|setattr\([^,\n]+, *[\"']{name}[\"']"
    return re.search(forms, source.text) is not None


def binds(statement: ast.stmt) -> set[str]:
    """The names that a statement of a class may give it, whichever way it goes."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {statement.name}
    named = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
    defined = (part for part in ast.walk(statement) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef))
    return named | {part.name for part in defined}


def _inherited(
    provider: Provider, definition: Definition, node: ast.ClassDef, depth: int
) -> tuple[ast.arguments, int] | None:
    """The signature of the only class above, where its own name leads to it."""
    if len(node.bases) != 1 or not isinstance(node.bases[0], ast.Name) or depth > _DEEPEST:
        return None
    above = provider.definition(definition.source.name, node.bases[0].id)
    if above is None or not isinstance(above.node, ast.ClassDef):
        return None
    return _signature(provider, above, depth + 1)
