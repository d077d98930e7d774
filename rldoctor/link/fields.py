"""The fields of an argument class with the values that a launch gives them: the class and those above it, what each
field has by default, how its type reads a text, and what does not fit it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.link.bounds import Bound, bounds
from rldoctor.link.choices import choices
from rldoctor.link.expressions import Expressions, Frame, class_of
from rldoctor.link.problems import Refusal
from rldoctor.link.sources import Source, Sources
from rldoctor.link.syntax import ENUMERATIONS, last_name, own_name, parts_of_type, set_before, set_on_the_way
from rldoctor.link.values import NOT_KNOWN, Known, Value


def plain_value(value: Any) -> Value:
    """A setting as the code that reads it has it."""
    if isinstance(value, list):
        return Known(tuple(value)) if all(isinstance(part, str | int | float) for part in value) else NOT_KNOWN
    return Known(value) if value is None or isinstance(value, str | int | float | bool) else NOT_KNOWN


def typed(value: Any, annotation: str) -> Value:
    """A setting as a parser of this type reads it; not known where its text does not fit the type."""
    if isinstance(value, bool) and "bool" not in annotation:
        return NOT_KNOWN  # given without its value
    named = isinstance(value, str) and "Literal[" in annotation and f"'{value.strip()}'" in annotation
    if not isinstance(value, str) or "str" in annotation or named:
        return plain_value(value.strip() if isinstance(value, str) else value)
    plain = value.strip()
    if "bool" in annotation and plain.lower() in ("true", "false"):
        return Known(plain.lower() == "true")
    for name, type_ in (("int", int), ("float", float)):
        if name in annotation:
            try:
                return Known(type_(plain))
            except ValueError:
                continue
    return NOT_KNOWN


class Fields(Expressions):
    """Expressions over an object whose fields are the settings. Where the launch may give more than was read
    (``complete`` is false), none has its default. ``sections`` are the fields that objects are given for as JSON."""

    def __init__(self, sources: Sources, complete: bool, variables: Mapping[str, Value] | None) -> None:
        super().__init__(sources, variables)
        self.complete = complete
        self.whole = True  # whether every class above could be read
        self.volatile = frozenset[str]()
        self.given: Mapping[str, Any] = {}
        self.sections: list[tuple[str, Source, ast.ClassDef, dict[str, Any]]] = []

    def take(self, source: Source, node: ast.ClassDef, given: Mapping[str, Any], method: str = "") -> None:
        """Makes the fields of a class the settings; ``method`` is called once its object is made."""
        self._linearize(source, node)
        self.given = {**given, **dict.fromkeys(set_before([known for _, known in self.order]), NOT_KNOWN)}
        # Fields that a method on the way may set, in quotes as ``setattr`` takes them too; the others stay as they are.
        self.volatile = frozenset(set_on_the_way([known for _, known in self.order], method))
        self._fill(self.given)

    def misfits(self) -> Iterator[Refusal]:
        """What pydantic refuses of the values when the object is made, before any code of the class runs."""
        for source, node in reversed(self.order):
            if not self._validated(source, node):
                continue
            for found in bounds(node):
                yield from self._beyond(found, source, node)
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign):
                    yield from self._unnamed(statement, source, node)

    def _beyond(self, bound: Bound, source: Source, node: ast.ClassDef) -> Iterator[Refusal]:
        """A number beyond the bound of its field."""
        value = self.attributes.get(bound.field)
        if isinstance(value, Known) and type(value.value) in (int, float) and not bound.holds(value.value):
            path = self.sources.search.relative(source.path)
            said = f"{bound.field} is {value.value}, which should be {bound.words}"
            condition = f"not {bound.field} {bound.sign} {bound.limit}"
            yield Refusal("ValidationError", said, path, bound.line, node.name, condition, (bound.field,))

    def _validated(self, source: Source, node: ast.ClassDef) -> bool:
        """Whether pydantic may look at the fields of a class; a dataclass of the standard library takes anything."""
        names = self.provider.names(source.name)
        stated = names.bound.get("dataclass") if names is not None else None
        plain = isinstance(stated, ast.ImportFrom) and stated.module == "dataclasses"
        marks = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
        return "pydantic" in source.text and not (plain and any(last_name(mark) == "dataclass" for mark in marks))

    def _unnamed(self, statement: ast.AnnAssign, source: Source, node: ast.ClassDef) -> Iterator[Refusal]:
        """A text or number that the ``Literal`` of its field does not name."""
        name = last_name(statement.target)
        value = self.attributes.get(name)
        if not isinstance(value, Known) or type(value.value) not in (str, int):
            return
        listed = choices(self.provider, statement.annotation, source)
        alike = listed is not None and all(one is None or type(one) is type(value.value) for one in listed)
        if alike and listed is not None and value.value not in listed:
            path = self.sources.search.relative(source.path)
            allowed = ", ".join(map(str, listed))
            said = f"{name} is {value.value!r}, which should be one of {allowed}"
            condition = f"{name} not in ({allowed})"
            yield Refusal("ValidationError", said, path, statement.lineno, node.name, condition, (name,))

    def _linearize(self, source: Source, node: ast.ClassDef) -> None:
        """The class and those above it, each before what it is made of."""
        if any(known is node for _, known in self.order):
            return
        self.order.append((source, node))
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in ("object", "ABC", "Generic"):
                continue
            definition = self.provider.definition(source.name, base.id) if isinstance(base, ast.Name) else None
            above = self.sources.whole(definition.source.name) if definition is not None else None
            body = above.tree.body if above is not None else []
            name = definition.node.name if definition is not None else ""
            found = next((n for n in body if isinstance(n, ast.ClassDef) and n.name == name), None)
            if above is None or found is None:
                self.whole = False
            else:
                self._linearize(above, found)

    def _fill(self, given: Mapping[str, Any]) -> None:
        """The fields with what is given, else with their defaults."""
        for source, node in reversed(self.order):
            frame = Frame(source, node.name, "", {}, 0)
            for statement in node.body:
                if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                    self._of_class[last_name(statement.targets[0])] = self.value(statement.value, frame)
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    name = statement.target.id
                    default = self._default(statement.value, frame) if self.complete else NOT_KNOWN
                    value = given.get(name, default)
                    self.sections += self._section(name, value, statement.annotation, source)
                    known = value is not NOT_KNOWN and not isinstance(value, Known)
                    self.attributes[name] = self._typed(value, statement.annotation, source) if known else value

    def _section(
        self, name: str, value: Any, annotation: ast.expr, source: Source
    ) -> list[tuple[str, Source, ast.ClassDef, dict[str, Any]]]:
        """The class that a field's annotation names beside None, with the JSON object that is given for it."""
        if not isinstance(value, str) or not value.lstrip().startswith("{"):
            return []
        wrapped = isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Optional"
        inside = annotation.slice if wrapped and isinstance(annotation, ast.Subscript) else annotation
        types = [part for part in parts_of_type(inside) if not isinstance(part, ast.Constant)]
        named = types[0].id if len(types) == 1 and isinstance(types[0], ast.Name) else ""
        try:
            given = json.loads(value)
        except (ValueError, RecursionError):
            return []
        if not isinstance(given, dict):
            return []
        if not named[:1].isupper():
            named, added = self._made_of_all(name)
            given = {key.replace("-", "_"): one for key, one in given.items()} | dict.fromkeys(added, NOT_KNOWN)
        above, node = class_of(self.sources, source.name, named) if named else (None, None)
        return [(name, above, node, given)] if above is not None and node is not None else []

    def _made_of_all(self, name: str) -> tuple[str, list[str]]:
        """The class that a method makes of all that is given for a field (``Config(**self.field)``), and what the code
        adds to it before; empty where there is none or what is added cannot be read."""
        named, added = "", list[str]()
        for part in (part for _, node in self.order for part in ast.walk(node)):
            if not isinstance(part, ast.Call):
                continue
            whole = [k.value for k in part.keywords if k.arg is None]
            if isinstance(part.func, ast.Name) and len(whole) == 1 and own_name(whole[0]) == name:
                if named not in ("", part.func.id) or len(part.keywords) > 1 or part.args:
                    return "", []
                named = part.func.id
            elif isinstance(part.func, ast.Attribute) and own_name(part.func.value) == name:
                keys = part.args[0].keys if part.args and isinstance(part.args[0], ast.Dict) else [None]
                texts = [key.value for key in keys if isinstance(key, ast.Constant)]
                if part.func.attr == "update" and len(texts) == len(keys):
                    added += map(str, texts)
                elif part.func.attr not in ("get", "items", "keys", "values", "copy"):
                    return "", []
        return named, added

    def _typed(self, value: Any, annotation: ast.expr, source: Source) -> Value:
        """A setting as its field has it; where a name stands for texts to choose from, it is the text."""
        found = typed(value, ast.unparse(annotation))
        listed = choices(self.provider, annotation, source) if found is NOT_KNOWN and isinstance(value, str) else None
        types = {type(one) for one in listed or () if one is not None}
        if found is NOT_KNOWN and isinstance(value, str) and self._is_enumeration(annotation, source):
            return Known(value.strip())  # whoever makes the object turns it into a member, or the object does
        if types == {int} and isinstance(value, str) and value.strip().isdecimal():
            return Known(int(value))
        return Known(value.strip()) if types == {str} else found

    def _is_enumeration(self, annotation: ast.expr, source: Source) -> bool:
        named = (last_name(part) for part in parts_of_type(annotation))
        classes = (class_of(self.sources, source.name, name)[1] for name in named if name[:1].isupper())
        bases = (last_name(base) for node in classes if node is not None for base in node.bases)
        return any(base in ENUMERATIONS for base in bases)

    def _default(self, node: ast.expr | None, frame: Frame) -> Value:
        if isinstance(node, ast.Call):
            found = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
            return self.value(found, frame) if found is not None else NOT_KNOWN
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._default_of(node.value.id, node.attr, frame)
        return self.value(node, frame) if isinstance(node, ast.Constant | ast.UnaryOp) else NOT_KNOWN

    def _default_of(self, name: str, wanted: str, frame: Frame) -> Value:
        """The default of a field of another class, which a class may take for its own."""
        source, node = class_of(self.sources, frame.source.name, name)
        for field_ in node.body if node is not None else ():
            if isinstance(field_, ast.AnnAssign) and last_name(field_.target) == wanted and source is not None:
                return self._default(field_.value, Frame(source, name, "", {}, 0))
        return NOT_KNOWN
