"""What a type annotation allows: plain types, closed choices, and the classes whose fields nest below."""

from __future__ import annotations

import ast
from dataclasses import field
from typing import Any

from rldoctor.records import dataclass
from rldoctor.tables.options.source import Definition, Module, Sources, dotted

_PLAIN = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "Path": "str",
    "list": "list",
    "List": "list",
    "tuple": "list",
    "Tuple": "list",
    "set": "list",
    "Set": "list",
    "Sequence": "list",
    "Iterable": "list",
    "ListConfig": "list",
    "dict": "dict",
    "Dict": "dict",
    "Mapping": "dict",
    "DictConfig": "dict",
    "PositiveInt": "int",
    "NonNegativeInt": "int",
    "PositiveFloat": "float",
    "NonNegativeFloat": "float",
}
_TRANSPARENT = frozenset({"Annotated", "NotRequired", "Required", "Final", "SkipValidation", "ReadOnly"})
_UNIONS = frozenset({"Optional", "Union"})
_DEEPEST = 10


@dataclass
class Meaning:
    """What an annotation says. ``choices`` is closed only while no wider type stands beside it."""

    types: set[str] = field(default_factory=set)
    choices: list[Any] = field(default_factory=list)
    classes: list[Definition] = field(default_factory=list)
    none: bool = False
    optional_key: bool = False
    class_variable: bool = False

    @property
    def label(self) -> str:
        """The type as :attr:`Option.type` spells it."""
        types = self.types | {type(choice).__name__ for choice in self.choices}
        if self.classes:
            types.add("dict")
        return "|".join(sorted(types)) + ("?" if self.none and types else "")

    @property
    def closed(self) -> tuple[Any, ...] | None:
        """The only values accepted, or None where others are too."""
        wider = self.types - {"bool"}
        return tuple(self.choices) if self.choices and not wider and not self.classes else None


def meaning(sources: Sources, module: Module, node: ast.expr) -> Meaning:
    """Reads the annotation ``node`` of ``module``."""
    found = Meaning()
    _read(sources, module, node, found, 0)
    return found


def _read(sources: Sources, module: Module, node: ast.expr, found: Meaning, depth: int) -> None:
    if depth > _DEEPEST:
        found.types.add("any")
    elif isinstance(node, ast.Constant):
        _constant(sources, module, node, found, depth)
    elif isinstance(node, ast.BinOp):
        _read(sources, module, node.left, found, depth + 1)
        _read(sources, module, node.right, found, depth + 1)
    elif isinstance(node, ast.Subscript):
        _subscript(sources, module, node, found, depth)
    else:
        _name(sources, module, node, found, depth)


def _constant(sources: Sources, module: Module, node: ast.Constant, found: Meaning, depth: int) -> None:
    if node.value is None:
        found.none = True
    elif isinstance(node.value, str):
        try:
            _read(sources, module, ast.parse(node.value, mode="eval").body, found, depth + 1)
        except SyntaxError:
            found.types.add("any")


def _subscript(sources: Sources, module: Module, node: ast.Subscript, found: Meaning, depth: int) -> None:
    name = (dotted(node.value) or "").rpartition(".")[2]
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        for part in parts:
            if isinstance(part, ast.Constant):
                if part.value is None:
                    found.none = True
                else:
                    found.choices.append(part.value)
            else:  # Literal[OtherLiteral]
                _read(sources, module, part, found, depth + 1)
    elif name in _UNIONS:
        found.none |= name == "Optional"
        for part in parts:
            _read(sources, module, part, found, depth + 1)
    elif name in _TRANSPARENT:
        found.optional_key |= name == "NotRequired"
        _read(sources, module, parts[0], found, depth + 1)
    elif name == "ClassVar":
        found.class_variable = True
    elif name in _PLAIN:
        found.types.add(_PLAIN[name])
    else:
        _name(sources, module, node.value, found, depth + 1)


def _name(sources: Sources, module: Module, node: ast.expr, found: Meaning, depth: int) -> None:
    name = dotted(node)
    last = (name or "").rpartition(".")[2]
    if last == "ClassVar":
        found.class_variable = True
    elif last in _PLAIN:
        found.types.add(_PLAIN[last])
    elif name is None or last == "Any":
        found.types.add("any")
    else:
        target = sources.resolve(module, name)
        if not isinstance(target, Definition):
            found.types.add("any")
        elif isinstance(target.node, ast.ClassDef):
            members = enumeration(target.node)
            if members is None:
                found.classes.append(target)
            else:
                found.choices.extend(members.values())
        elif isinstance(target.node, ast.expr):
            _read(sources, target.module, target.node, found, depth + 1)
        else:
            found.types.add("any")


def enumeration(node: ast.ClassDef) -> dict[str, Any] | None:
    """The members of an enumeration with literal values, or None where the class is none."""
    bases = [(dotted(base) or "").rpartition(".")[2] for base in node.bases]
    if not any(base.endswith(("Enum", "EnumMeta")) for base in bases):
        return None
    members: dict[str, Any] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = statement.value
            if isinstance(value, ast.Constant):
                members[statement.targets[0].id] = value.value
            elif isinstance(value, ast.Call):  # auto() of a string enumeration is the name in lower case
                members[statement.targets[0].id] = statement.targets[0].id.lower()
    return members
