"""What a class lets be chosen for a field: ``mode: Literal["a", "b"] | None``, or a name that stands for such."""

from __future__ import annotations

import ast
from typing import Any

from rldoctor.link.provided import Provider
from rldoctor.link.sources import Source
from rldoctor.link.syntax import gives, last_name

_DEEPEST = 16  # names that stand for names


def choices(provider: Provider, annotation: ast.expr, source: Source, depth: int = 0) -> tuple[Any, ...] | None:
    """The values that an annotation leaves, where it is made of nothing but ``Literal`` and None; a name may stand
    for such."""
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return ()
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        both = [choices(provider, part, source, depth) for part in (annotation.left, annotation.right)]
        return None if None in both else tuple(one for part in both if part is not None for one in part)
    if isinstance(annotation, ast.Subscript):
        listed = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        parts: list[tuple[Any, ...] | None] = []
        for part in listed:
            plain = isinstance(part, ast.Constant) and last_name(annotation.value) == "Literal"
            parts.append(
                (part.value,) if plain and isinstance(part, ast.Constant) else choices(provider, part, source, depth)
            )
        inside = last_name(annotation.value) in ("Literal", "Optional", "Union") and depth < _DEEPEST
        return None if None in parts or not inside else tuple(one for part in parts if part for one in part)
    if isinstance(annotation, ast.Name) and depth < _DEEPEST:
        names = provider.names(source.name)
        stated = names.bound.get(annotation.id) if names is not None else None
        if isinstance(stated, ast.ImportFrom):
            above = provider.sources.declarations(source.origin(stated))
            original = next((a.name for a in stated.names if (a.asname or a.name) == annotation.id), "")
            return choices(provider, ast.Name(original), above, depth + 1) if above is not None else None
        values = [n.value for n in source.tree.body if gives(n, annotation.id)]
        return choices(provider, values[0], source, depth + 1) if len(values) == 1 and values[0] is not None else None
    return None
