"""The classes whose objects a field of a class holds: ``optim: AdamWConfig | SGDConfig | None``, or a name that stands
for such; and how pydantic tells one of several by a tag."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from rldoctor.link.choices import choices
from rldoctor.link.expressions import class_of
from rldoctor.link.provided import Provider
from rldoctor.link.sources import Source
from rldoctor.link.syntax import defined_as, gives, last_name, quoted
from rldoctor.records import dataclass

_DEEPEST = 16  # names that stand for names, classes above classes
Made = tuple[Source, ast.ClassDef]


@dataclass
class Sections:
    """What an annotation names: classes of settings, whether other types stand beside them, and the field that tells
    which class it is (``Field(discriminator="type")``)."""

    classes: list[Made] = field(default_factory=list)
    others: bool = False
    tag: str = ""


def sections(provider: Provider, annotation: ast.expr, source: Source) -> Sections:
    """The classes of settings that an annotation names."""
    found = Sections()
    _collect(provider, annotation, source, found, 0)
    return found


def _collect(provider: Provider, node: ast.expr, source: Source, found: Sections, depth: int) -> None:
    if depth > _DEEPEST:
        found.others = True
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        _collect(provider, ast.parse(node.value, mode="eval").body, source, found, depth + 1)
    elif isinstance(node, ast.Constant) and node.value is None:
        pass
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        _collect(provider, node.left, source, found, depth + 1)
        _collect(provider, node.right, source, found, depth + 1)
    elif isinstance(node, ast.Subscript):
        _subscripted(provider, node, source, found, depth)
    elif isinstance(node, ast.Name):
        _named(provider, node.id, source, found, depth)
    else:
        found.others = True


def _subscripted(provider: Provider, node: ast.Subscript, source: Source, found: Sections, depth: int) -> None:
    listed = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    kind = last_name(node.value)
    if kind == "Annotated":
        _collect(provider, listed[0], source, found, depth + 1)
        for call in (one for one in listed[1:] if isinstance(one, ast.Call)):
            found.tag = next((quoted(k.value) or "" for k in call.keywords if k.arg == "discriminator"), found.tag)
    elif kind in ("Optional", "Union"):
        for one in listed:
            _collect(provider, one, source, found, depth + 1)
    else:
        found.others = True


def _named(provider: Provider, name: str, source: Source, found: Sections, depth: int) -> None:
    definition = provider.definition(source.name, name)
    if definition is not None:
        above = provider.sources.whole(definition.source.name)
        made = defined_as(above.tree.body, definition.node.name) if above is not None else None
        if above is not None and isinstance(made, ast.ClassDef) and is_of_settings(provider, above, made):
            found.classes.append((above, made))
        else:
            found.others = True
        return
    names = provider.names(source.name)
    stated = names.bound.get(name) if names is not None else None
    if isinstance(stated, ast.ImportFrom):
        above = provider.sources.declarations(source.origin(stated))
        original = next((a.name for a in stated.names if (a.asname or a.name) == name), "")
        if above is not None and original:
            _collect(provider, ast.Name(original), above, found, depth + 1)
            return
    values = [node.value for node in source.tree.body if gives(node, name)]
    if len(values) == 1 and values[0] is not None:
        _collect(provider, values[0], source, found, depth + 1)
    else:
        found.others = True


def is_of_settings(provider: Provider, source: Source, node: ast.ClassDef, depth: int = 0) -> bool:
    """Whether the objects of a class are made of its fields: a dataclass, or one of pydantic's."""
    marks = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    if any(last_name(mark) == "dataclass" for mark in marks):
        return True
    return any(_is_base_of_settings(provider, source, base, depth) for base in node.bases)


def _is_base_of_settings(provider: Provider, source: Source, base: ast.expr, depth: int) -> bool:
    if origin(provider, source, last_name(base)).startswith("pydantic"):
        return True
    above, found = class_of(provider.sources, source.name, last_name(base))
    if above is None or found is None or depth >= _DEEPEST:
        return False
    return is_of_settings(provider, above, found, depth + 1)


def origin(provider: Provider, source: Source, name: str) -> str:
    """The module that a name comes from which a module imports, through those that pass it on."""
    module = ""
    for _ in range(_DEEPEST):
        names = provider.names(source.name)
        stated = names.bound.get(name) if names is not None else None
        if not isinstance(stated, ast.ImportFrom):
            break
        module = source.origin(stated)
        name = next((a.name for a in stated.names if (a.asname or a.name) == name), name)
        above = provider.sources.declarations(module)
        if above is None:
            break
        source = above
    return module


def tags(provider: Provider, made: Made, tag: str) -> tuple[Any, ...]:
    """The texts of the field ``tag`` by which a class is chosen; none where these cannot be read."""
    source, node = made
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and last_name(statement.target) == tag:
            return choices(provider, statement.annotation, source) or ()
    return ()


def beneath(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What is given for the fields of a section, by their own names."""
    return {key[len(name) + 1 :]: value for key, value in given.items() if key.startswith(f"{name}.")}


def aliases(value: ast.expr | None) -> Iterator[str]:
    """Other names under which pydantic takes a field: ``Field(validation_alias=AliasChoices("a", "b"))``."""
    for keyword in value.keywords if isinstance(value, ast.Call) else ():
        if keyword.arg in ("alias", "validation_alias"):
            yield from filter(None, (quoted(one) for one in ast.walk(keyword.value) if isinstance(one, ast.Constant)))


def is_required(value: ast.expr | None) -> bool:
    """Whether a field has no default: nothing, ``...``, ``MISSING``, or a ``Field`` or ``field`` without one."""
    if value is None or last_name(value) == "MISSING" or (isinstance(value, ast.Constant) and value.value is Ellipsis):
        return True
    if not isinstance(value, ast.Call) or last_name(value.func) not in ("Field", "field"):
        return False
    if value.args:
        return is_required(value.args[0])
    given = [k.value for k in value.keywords if k.arg in ("default", "default_factory")]
    return all(map(is_required, given)) and not any(k.arg is None for k in value.keywords)
