"""Options declared as the fields of a class: dataclasses, pydantic models, typed dictionaries, structs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rldoctor.records import dataclass
from rldoctor.tables.options.annotations import Meaning, enumeration, meaning
from rldoctor.tables.options.model import MISSING, Computed, Option, Options
from rldoctor.tables.options.source import Definition, Module, Sources, dotted
from rldoctor.tables.options.values import Evaluator, UnevaluableError

_FIELD_CALLS = frozenset({"field", "Field", "ListField", "FieldInfo"})
_DEPRECATED = re.compile(r"^\W*(this (\w+ ){0,2}is )?(deprecated|no longer used)|\[deprecated", re.IGNORECASE)
_DEPRECATED_COMMENT = re.compile(r"#\s*deprecated", re.IGNORECASE)
_DEEPEST = 10  # levels of classes within classes


@dataclass(frozen=True)
class Field:
    """One annotated attribute, where it stands, and its default expression."""

    name: str
    module: Module
    node: ast.AnnAssign
    total: bool


class Classes:
    """Reads the fields of classes with everything they inherit inside the tree."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.evaluator = Evaluator(sources, self.attribute)
        self._fields: dict[tuple[str, str], dict[str, Field]] = {}

    def options(self, owner: Definition, nested: bool = False, inherited: bool = True) -> Options:
        """The options that the class declares; with ``nested`` those of the classes below it too, as dotted names;
        without ``inherited`` only those that it declares itself."""
        found: Options = {}
        self._collect(owner, "", nested, {}, (_class_name(owner),), found)
        if not inherited:
            own = {declared.name for declared in _own_fields(owner)}
            found = {name: option for name, option in found.items() if name.partition(".")[0] in own}
        return found

    def fields(self, owner: Definition) -> dict[str, Field]:
        """The fields by name as the class has them in the end: the method resolution order decides."""
        assert isinstance(owner.node, ast.ClassDef)
        key = (owner.module.name, owner.node.name)
        if key not in self._fields:
            merged: dict[str, Field] = {}
            for ancestor in reversed(self.linearized(owner)):
                merged.update((f.name, f) for f in _own_fields(ancestor))
            self._fields[key] = merged
        return self._fields[key]

    def linearized(self, owner: Definition, depth: int = 0) -> list[Definition]:
        """The C3 order of the class and its ancestors; ancestors outside the tree are left out."""
        assert isinstance(owner.node, ast.ClassDef)
        parents: list[Definition] = []
        if depth <= _DEEPEST:
            for base in owner.node.bases:
                name = dotted(base.value if isinstance(base, ast.Subscript) else base)
                target = self.sources.resolve(owner.module, name) if name else None
                if isinstance(target, Definition) and isinstance(target.node, ast.ClassDef):
                    parents.append(target)
        return [owner, *_merge([*(self.linearized(p, depth + 1) for p in parents), parents])]

    def attribute(self, owner: Definition, name: str) -> Any:
        """``Class.name``: the member of an enumeration or the default of a field."""
        assert isinstance(owner.node, ast.ClassDef)
        members = enumeration(owner.node)
        if members is not None:
            if name in members:
                return members[name]
            raise UnevaluableError
        declared = self.fields(owner).get(name)
        if declared is None:
            for ancestor in self.linearized(owner):
                assert isinstance(ancestor.node, ast.ClassDef)
                for statement in ancestor.node.body:
                    if isinstance(statement, ast.Assign) and name in {dotted(target) for target in statement.targets}:
                        return self.evaluator.strict(ancestor.module, statement.value, {})
            raise UnevaluableError
        default = self.default(declared)
        if default is MISSING or isinstance(default, Computed):
            raise UnevaluableError
        return default

    def default(self, declared: Field) -> Any:
        """The default: a value, :class:`Computed`, MISSING, or the :class:`Definition` of a class that is built."""
        node = declared.node.value
        if node is None:
            return MISSING
        if isinstance(node, ast.Call):
            return self._called_default(declared.module, node)
        return self.evaluator.value(declared.module, node)

    def _called_default(self, module: Module, node: ast.Call) -> Any:
        name = (dotted(node.func) or "").rpartition(".")[2]
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if name in _FIELD_CALLS:
            if "default" in keywords:
                return self._built(module, keywords["default"])
            if "default_factory" in keywords:
                return self._factory(module, keywords["default_factory"])
            if node.args and not (isinstance(node.args[0], ast.Constant) and node.args[0].value is ...):
                return self._built(module, node.args[0])
            return MISSING
        if name == "get_field" and len(node.args) >= 2:  # vLLM: the default of another class's field
            return self._borrowed(module, node)
        return self._built(module, node)

    def _borrowed(self, module: Module, node: ast.Call) -> Any:
        owner = self.sources.resolve(module, dotted(node.args[0]) or "")
        attribute = node.args[1]
        if (
            isinstance(owner, Definition)
            and isinstance(owner.node, ast.ClassDef)
            and isinstance(attribute, ast.Constant)
        ):
            declared = self.fields(owner).get(str(attribute.value))
            if declared is not None:
                return self.default(declared)
        return self.evaluator.value(module, node)

    def _factory(self, module: Module, node: ast.expr) -> Any:
        if isinstance(node, ast.Lambda):
            return self._built(module, node.body)
        name = dotted(node) or ""
        if name in ("list", "tuple", "set", "frozenset"):
            return []
        if name == "dict":
            return {}
        target = self.sources.resolve(module, name) if name else None
        if isinstance(target, Definition) and isinstance(target.node, ast.ClassDef):
            return target
        return Computed(ast.unparse(node) + "()")

    def _built(self, module: Module, node: ast.expr) -> Any:
        """The value, or the class where the expression builds an object of the tree."""
        if isinstance(node, ast.Call):
            name = dotted(node.func) or ""
            if name.rpartition(".")[2] == "deepcopy" and len(node.args) == 1:
                return self._built(module, node.args[0])
            target = self.sources.resolve(module, name) if name else None
            if isinstance(target, Definition) and isinstance(target.node, ast.ClassDef):
                return target
        return self.evaluator.value(module, node)

    def _collect(
        self,
        owner: Definition,
        prefix: str,
        nested: bool,
        given: dict[str, Any],
        above: tuple[str, ...],
        found: Options,
    ) -> None:
        assert isinstance(owner.node, ast.ClassDef)
        members = self._members(owner)
        for name, declared in self.fields(owner).items():
            read = meaning(self.sources, declared.module, declared.node.annotation)
            if read.class_variable:
                continue
            default = given.get(name, self.default(declared))
            below = [c for c in read.classes if nested and _class_name(c) not in above and len(above) < _DEEPEST]
            below = [c for c in below if self.fields(c)]
            # Where the fields below are listed, the object that holds them says something only by being None.
            if not below or default is None:
                option = self._option(prefix + name, declared, read, default, members.get(name), nested)
                for spelled in (option, *_aliases(option, prefix, declared)):
                    found[spelled.name] = spelled
            alternatives: list[Options] = []
            for child in below:
                overrides = self._overrides(declared) if isinstance(default, Definition) else {}
                alternatives.append({})
                chain = (*above, _class_name(child))
                self._collect(child, f"{prefix}{name}.", True, overrides, chain, alternatives[-1])
            built = [_class_name(child) == _class_name(default) for child in below if isinstance(default, Definition)]
            found.update(_either(alternatives, built.index(True) if True in built else len(below) - 1))

    def _members(self, owner: Definition) -> dict[str, tuple[Any, ...]]:
        """The members of the enumerations that the class makes of its own fields, by field:
        ``self.save_strategy = SaveStrategy(self.save_strategy)``."""
        found: dict[str, tuple[Any, ...]] = {}
        for ancestor in reversed(self.linearized(owner)):
            for node in ast.walk(ancestor.node):
                call = node.value if isinstance(node, ast.Assign) else None
                if not isinstance(call, ast.Call) or len(call.args) != 1 or not isinstance(node, ast.Assign):
                    continue
                made, taken = dotted(node.targets[0]) or "", dotted(call.args[0])
                target = self.sources.resolve(ancestor.module, dotted(call.func) or "") if made == taken else None
                if not isinstance(target, Definition) or not isinstance(target.node, ast.ClassDef):
                    continue
                members = enumeration(target.node)
                if members and made.startswith("self."):
                    found[made.removeprefix("self.")] = tuple(members.values())
        return found

    def _option(
        self,
        name: str,
        declared: Field,
        read: Meaning,
        default: Any,
        members: tuple[Any, ...] | None,
        nested: bool,
    ) -> Option:
        built = isinstance(default, Definition)
        listed = self._listed_choices(declared)
        return Option(
            name,
            default={} if built else default,
            type="dict" if built else read.label,
            choices=members or (None if nested else listed) or read.closed,
            enforced=members is not None,
            names=tuple(one for one in listed if isinstance(one, str)) if nested and listed else None,
            required=default is MISSING and declared.total and not read.optional_key,
            deprecated=_is_deprecated(declared),
        )

    def _listed_choices(self, declared: Field) -> tuple[Any, ...] | None:
        """The ``choices`` in a field's metadata, which the argument parser of transformers enforces, and who makes an
        object of a file's sections does not."""
        node = declared.node.value
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg == "metadata" and isinstance(keyword.value, ast.Dict):
                for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "choices":
                        listed = self.evaluator.value(declared.module, value)
                        return tuple(listed) if isinstance(listed, list) else None
        return None

    def _overrides(self, declared: Field) -> dict[str, Any]:
        """The keyword arguments that a default factory hands to the class it builds."""
        for call in ast.walk(declared.node.value) if declared.node.value else ():
            function = (dotted(call.func) or "").rpartition(".")[2] if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and function not in _FIELD_CALLS and function != "deepcopy":
                return {
                    keyword.arg: self.evaluator.value(declared.module, keyword.value)
                    for keyword in call.keywords
                    if keyword.arg
                }
        return {}


def _either(alternatives: list[Options], usual: int) -> Options:
    """The options of a section for which any of several classes may stand: what one of them takes is taken. ``usual``
    is the one that stands there where none is chosen."""
    if len(alternatives) < 2:
        return alternatives[0] if alternatives else {}
    found: Options = {}
    for name in dict.fromkeys(name for options in alternatives for name in options):
        options = [one[name] for one in alternatives if name in one]
        choices, names = [one.choices for one in options], [one.names for one in options]
        types = dict.fromkeys(part for one in options for part in one.type.removesuffix("?").split("|") if part)
        none = any(one.type.endswith("?") for one in options)
        found[name] = replace(
            alternatives[usual].get(name, options[0]),
            type="|".join(sorted(types)) + ("?" if none and types else ""),
            choices=None if None in choices else tuple(dict.fromkeys(c for some in choices for c in some or ())),
            names=None if None in names else tuple(dict.fromkeys(one for some in names for one in some or ())),
            required=all(one.required for one in options),
        )
    return found


def find_class(sources: Sources, path: str, name: str) -> Definition | None:
    """The class ``name`` in the file at ``path``, or None."""
    module = sources.at(path)
    found = sources.resolve(module, name) if module else None
    return found if isinstance(found, Definition) and isinstance(found.node, ast.ClassDef) else None


def _own_fields(owner: Definition) -> Iterator[Field]:
    assert isinstance(owner.node, ast.ClassDef)
    total = not any(
        keyword.arg == "total" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in owner.node.keywords
    )
    for statement in owner.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield Field(statement.target.id, owner.module, statement, total)


def _aliases(option: Option, prefix: str, declared: Field) -> Iterator[Option]:
    """The other names under which pydantic accepts a field: ``Field(alias="model_config")``,
    ``Field(validation_alias=AliasChoices("group_size", "rollouts_per_example"))``."""
    node = declared.node.value
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        if keyword.arg in ("alias", "validation_alias"):
            listed = keyword.value.args if isinstance(keyword.value, ast.Call) else [keyword.value]
            for name in (f"{prefix}{part.value!s}" for part in listed if isinstance(part, ast.Constant)):
                if name != option.name:
                    yield Option(name, option.default, option.type, option.choices, alias=option.name)


def _is_deprecated(declared: Field) -> bool:
    line = declared.module.lines[(declared.node.end_lineno or declared.node.lineno) - 1]
    if _DEPRECATED_COMMENT.search(line):
        return True
    node = declared.node.value
    texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)] if isinstance(node, ast.Call) else []
    return any(isinstance(text, str) and len(text) > 8 and _DEPRECATED.match(text) for text in texts)


def _class_name(found: Definition) -> str:
    assert isinstance(found.node, ast.ClassDef)
    return f"{found.module.name}.{found.node.name}"


def _merge(sequences: list[list[Definition]]) -> list[Definition]:
    """The C3 merge; where the order is inconsistent, what is left is taken as it comes."""
    merged: list[Definition] = []
    rest = [list(sequence) for sequence in sequences if sequence]
    while rest:
        heads = [sequence[0] for sequence in rest]
        tails = {id(d.node) for sequence in rest for d in sequence[1:]}
        chosen = next((head for head in heads if id(head.node) not in tails), heads[0])
        merged.append(chosen)
        rest = [[d for d in sequence if d.node is not chosen.node] for sequence in rest]
        rest = [sequence for sequence in rest if sequence]
    return merged
