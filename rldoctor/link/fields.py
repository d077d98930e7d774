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
from rldoctor.link.sections import Made, Sections, aliases, beneath, is_required, origin, sections, tags
from rldoctor.link.sources import Source, Sources
from rldoctor.link.syntax import (
    ENUMERATIONS,
    hands_on,
    last_name,
    own_name,
    parts_of_type,
    quoted,
    set_before,
    set_on_the_way,
    validated_fields,
    validates_raw,
)
from rldoctor.link.values import NOT_KNOWN, Known, Settings, Value
from rldoctor.records import dataclass

# What pydantic makes of texts for a truth value.
_TRUTHS = frozenset({"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"})
_NOTHING = frozenset({"none", "null", "", "???"})  # words that a reader of files may take for none
# Of these packages every class of settings takes its own fields alone.
_CLOSED = frozenset({"pydantic_config"})


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


@dataclass(frozen=True)
class Section:
    """A field for which an object of another class is made of what is ``given``: as JSON in one ``text``, or by names
    below its own. One of several classes is told by its ``tag``."""

    name: str
    source: Source
    node: ast.ClassDef
    given: Mapping[str, Any]
    text: bool = False
    tag: str = ""


class Fields(Expressions):
    """Expressions over an object whose fields are the settings. Where the launch may give more than was read
    (``complete`` is false), none has its default. ``sections`` are the fields for which objects of other classes are
    made. ``worded`` are fields that are given as words of a command, which have no type yet; only where everything is
    ``asked`` for is a field missed that has no default."""

    def __init__(self, sources: Sources, complete: bool, variables: Mapping[str, Value] | None) -> None:
        super().__init__(sources, variables)
        self.complete = complete
        self.worded = frozenset[str]()
        self.asked = False
        self.tagged = False
        self.typed = False  # whether OmegaConf makes the objects
        self.whole = True  # whether every class above could be read
        self._unread = False  # whether one of those that could not be is another than pydantic's own
        self.volatile = frozenset[str]()
        self.given: Mapping[str, Any] = {}
        self.sections: dict[str, Section] = {}
        self._untold: list[Refusal] = []  # tags that name no class

    def take(self, source: Source, node: ast.ClassDef, given: Mapping[str, Any], method: str = "") -> None:
        """Makes the fields of a class the settings; ``method`` is called once its object is made."""
        self._linearize(source, node)
        classes = [known for _, known in self.order]
        # What code that is not followed gets before the object is made may give any field.
        self.complete = self.complete and not hands_on(classes)
        self.given = {**self._by_field(given), **dict.fromkeys(set_before(classes), NOT_KNOWN)}
        # Fields that a method on the way may set, in quotes as ``setattr`` takes them too; the others stay as they are.
        self.volatile = frozenset(set_on_the_way([known for _, known in self.order], method))
        self._fill(self.given)

    def _by_field(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is given by the names of the fields, where pydantic takes other names for them."""
        found = dict(given)
        for _, node in self.order:
            for statement in node.body:
                name = last_name(statement.target) if isinstance(statement, ast.AnnAssign) else ""
                for alias in aliases(statement.value) if isinstance(statement, ast.AnnAssign) else ():
                    for key in [one for one in found if alias != name and (one + ".").startswith(f"{alias}.")]:
                        found.setdefault(name + key[len(alias) :], found.pop(key))
        return found

    def misfits(self) -> Iterator[Refusal]:
        """What pydantic refuses of the values when the object is made, before any code of the class runs."""
        yield from self._untold
        declared = self._declared()
        for source, node in reversed(self.order):
            if not self.typed and not self._validated(source, node):
                continue
            own = [
                one for one in node.body if isinstance(one, ast.AnnAssign) and declared[last_name(one.target)] is one
            ]
            for found in bounds(node) if not self.typed else ():
                if any(last_name(one.target) == found.field for one in own):
                    yield from self._beyond(found, source, node)
            for statement in own:
                if not self.typed:  # OmegaConf reads no Literal
                    yield from self._unnamed(statement, source, node)
                yield from self._of_another_type(statement, source, node)
        yield from self._strange()
        yield from self._missed()

    def _declared(self) -> Mapping[str, ast.AnnAssign]:
        """The fields where they are declared, each by the class that is nearest."""
        found: dict[str, ast.AnnAssign] = {}
        for _, node in self.order:
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign):
                    found.setdefault(last_name(statement.target), statement)
        return found

    def _strange(self) -> Iterator[Refusal]:
        """A name that the class of a section, chosen among several, does not have, where it takes no other."""
        classes = [node for _, node in self.order]
        if not self.tagged or any(
            map(validates_raw, (m for n in classes for f in _functions(n) for m in f.decorator_list))
        ):
            return
        if not any(self._forbids(source, node) for source, node in self.order):
            return
        named = self._declared()
        source, node = self.order[0]
        for name in self.given:
            if (first := name.partition(".")[0]) not in named:
                said = f"{first}: {node.name} has no such field"
                yield self._misfit(source, node, node.lineno, said, f"{first} not in {node.name}", name)

    def _forbids(self, source: Source, node: ast.ClassDef) -> bool:
        """Whether a class says that it takes its own fields alone."""
        if any(origin(self.provider, source, last_name(base)).partition(".")[0] in _CLOSED for base in node.bases):
            return True
        calls = (s.value for s in node.body if isinstance(s, ast.Assign) and last_name(s.targets[0]) == "model_config")
        keywords = [*node.keywords, *(k for call in calls if isinstance(call, ast.Call) for k in call.keywords)]
        return any(k.arg == "extra" and quoted(k.value) == "forbid" for k in keywords)

    def _missed(self) -> Iterator[Refusal]:
        """A field without a default that nobody gives, where others of its object are given."""
        if not self.asked or not self.complete or not self._whole_but_pydantic() or not self.given:
            return
        declared = self._declared()
        for source, node in self.order:
            for name, statement in declared.items():
                given = any((k + ".").startswith(f"{name}.") and one != "???" for k, one in self.given.items())
                variable = "ClassVar" in ast.unparse(statement.annotation) or name == "model_config"
                if statement in node.body and not given and not variable and is_required(statement.value):
                    said = f"{name} is not given, and has no default"
                    yield self._misfit(source, node, statement.lineno, said, f"no {name}", next(iter(self.given)))

    def _whole_but_pydantic(self) -> bool:
        """Whether no class above is unknown but pydantic's own, so that all fields are known."""
        return self.whole or not self._unread

    def _misfit(self, source: Source, node: ast.ClassDef, line: int, said: str, condition: str, name: str) -> Refusal:
        path = self.sources.search.relative(source.path)
        return Refusal("ValidationError", said, path, line, node.name, condition, (name,))

    def _of_another_type(self, statement: ast.AnnAssign, source: Source, node: ast.ClassDef) -> Iterator[Refusal]:
        """A value that pydantic makes no object, list, text or number of."""
        name = last_name(statement.target)
        raw = self.given.get(name)
        if name not in self.given or name in self.worded or not isinstance(raw, str | int | float | list):
            return
        if isinstance(raw, str) and (
            raw.strip().lower() in _NOTHING or raw.lstrip().startswith(("{", "[")) or "$" in raw
        ):
            return
        if any(name in validated_fields(f, before=True) for _, above in self.order for f in _functions(above)):
            return
        wanted = self._wanted(statement.annotation, source, raw)
        if wanted:
            said = f"{name} is {raw!r}, which should be {wanted}"
            yield self._misfit(source, node, statement.lineno, said, f"{name} is no {wanted}", name)

    def _wanted(self, annotation: ast.expr, source: Source, raw: Any) -> str:
        """What a type takes, in words, where a value is none of it; empty where it may be."""
        text = ast.unparse(annotation)
        text = text.removeprefix("Optional[").removesuffix("]") if text.startswith("Optional[") else text
        plain = text.removesuffix(" | None").removeprefix("None | ")
        if plain == "str":
            made = self.typed or "coerce_numbers_to_str" in source.text
            return "" if isinstance(raw, str) or (made and not isinstance(raw, list)) else "a text"
        if self.typed and plain == "int" and isinstance(raw, bool | float):
            return "a whole number"
        if plain in ("int", "float", "bool"):
            return "" if not isinstance(raw, list) and _is_scalar(plain, raw) else f"one value of type {plain}"
        if plain.startswith("list[") and plain.count("[") == plain.count("]") and not isinstance(raw, list):
            return "" if "|" in plain.rpartition("]")[2] else "a list"
        if plain.isidentifier() and not isinstance(raw, list):
            kinds = sections(self.provider, annotation, source)
            names = " or ".join(made.name for _, made in kinds.classes)
            return f"a section of {names}" if kinds.classes and not kinds.others else ""
        return ""

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
                above_all = origin(self.provider, source, last_name(base)).startswith("pydantic")
                self._unread = self._unread or not above_all
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
                    below = beneath(given, name)
                    self.sections.pop(name, None)
                    if below or given.get(name) == {}:
                        self.attributes[name] = self._made(name, below, statement, frame)
                        continue
                    if name not in given and self.complete:
                        made = self._made_by_default(statement.value, frame)
                        if made is not None:
                            self.attributes[name] = Settings(name)
                            self.sections[name] = Section(name, *made[0], made[1])
                            continue
                    default = self._default(statement.value, frame) if self.complete else NOT_KNOWN
                    value = given.get(name, default)
                    for section in self._section(name, value, statement.annotation, source):
                        self.sections[name] = section
                    known = value is not NOT_KNOWN and not isinstance(value, Known)
                    self.attributes[name] = self._typed(value, statement.annotation, source) if known else value

    def _made(self, name: str, below: Mapping[str, Any], statement: ast.AnnAssign, frame: Frame) -> Value:
        """The section that is made of what is given below the name of a field, where its class is known."""
        kinds = sections(self.provider, statement.annotation, frame.source)
        if isinstance(statement.value, ast.Call):
            keywords = statement.value.keywords
            kinds.tag = next((quoted(k.value) or "" for k in keywords if k.arg == "discriminator"), kinds.tag)
        chosen = self._chosen(name, kinds, below, statement, frame)
        if chosen is None:
            return NOT_KNOWN
        self.sections[name] = Section(name, *chosen, below, tag=kinds.tag if len(kinds.classes) > 1 else "")
        return Settings(name)

    def _chosen(
        self, name: str, kinds: Sections, below: Mapping[str, Any], statement: ast.AnnAssign, frame: Frame
    ) -> Made | None:
        """The class of a section: the only one, that of its tag, or that of the default where it gives no tag."""
        if kinds.others or not kinds.classes:
            return None
        if len(kinds.classes) == 1:
            return kinds.classes[0]
        told = below.get(kinds.tag) if kinds.tag else NOT_KNOWN
        if kinds.tag and kinds.tag not in below:
            default = self._made_by_default(statement.value, frame)
            return default[0] if default is not None and default[0] in kinds.classes else None
        listed = [(made, tags(self.provider, made, kinds.tag)) for made in kinds.classes] if kinds.tag else []
        for made, texts in listed:
            if told in texts:
                return made
        if isinstance(told, str) and listed and all(texts for _, texts in listed):
            allowed = ", ".join(str(text) for _, texts in listed for text in texts)
            said = f"{name}.{kinds.tag} is {told!r}, which should be one of {allowed}"
            path = self.sources.search.relative(frame.source.path)
            condition = f"{name}.{kinds.tag} not in ({allowed})"
            reads = (f"{name}.{kinds.tag}",)
            self._untold.append(Refusal("ValidationError", said, path, statement.lineno, frame.owner, condition, reads))
        return None

    def _made_by_default(self, node: ast.expr | None, frame: Frame) -> tuple[Made, Mapping[str, Any]] | None:
        """The class of which a field has an object by default, and what that is made of: ``X()``,
        ``field(default_factory=X)``, ``Field(default_factory=lambda: X(size=1))``."""
        if isinstance(node, ast.Lambda):
            return self._made_by_default(node.body, frame)
        if not isinstance(node, ast.Call):
            return None
        if last_name(node.func) in ("Field", "field"):
            for keyword in node.keywords:
                if keyword.arg == "default" or (
                    keyword.arg == "default_factory" and isinstance(keyword.value, ast.Lambda)
                ):
                    return self._made_by_default(keyword.value, frame)
                if keyword.arg == "default_factory":
                    return self._made_by_default(ast.Call(keyword.value, [], []), frame)
            return self._made_by_default(node.args[0], frame) if node.args else None
        if node.args or not isinstance(node.func, ast.Name) or any(k.arg is None for k in node.keywords):
            return None
        classes = sections(self.provider, node.func, frame.source).classes
        given = {k.arg: self.value(k.value, frame) for k in node.keywords if k.arg is not None}
        return (classes[0], given) if classes else None

    def _section(self, name: str, value: Any, annotation: ast.expr, source: Source) -> list[Section]:
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
        return [Section(name, above, node, given, text=True)] if above is not None and node is not None else []

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
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            stated = given.get("default")
            if stated is None and node.args and last_name(node.func) == "Field":
                stated = node.args[0]
            if stated is not None:
                return self.value(stated, frame) if not is_required(stated) else NOT_KNOWN
            factory = given.get("default_factory")
            if isinstance(factory, ast.Lambda):
                return self.value(factory.body, frame)
            return Known(()) if factory is not None and last_name(factory) == "list" else NOT_KNOWN
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._default_of(node.value.id, node.attr, frame)
        plain = isinstance(node, ast.Constant | ast.UnaryOp | ast.List | ast.Tuple) and not is_required(node)
        return self.value(node, frame) if plain and node is not None else NOT_KNOWN

    def _default_of(self, name: str, wanted: str, frame: Frame) -> Value:
        """The default of a field of another class, which a class may take for its own."""
        source, node = class_of(self.sources, frame.source.name, name)
        for field_ in node.body if node is not None else ():
            if isinstance(field_, ast.AnnAssign) and last_name(field_.target) == wanted and source is not None:
                return self._default(field_.value, Frame(source, name, "", {}, 0))
        return NOT_KNOWN


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in node.body if isinstance(one, ast.FunctionDef)]


def _is_scalar(kind: str, raw: str | float) -> bool:
    """Whether pydantic makes a value of a plain type of what is given."""
    if kind == "bool":
        return raw.strip().lower() in _TRUTHS if isinstance(raw, str) else raw in (0, 1)
    if isinstance(raw, float):
        return kind == "float" or raw == int(raw)
    try:
        float(raw) if kind == "float" else int(float(raw)) if str(raw).endswith(".0") else int(raw)
    except ValueError:
        return False
    return True
