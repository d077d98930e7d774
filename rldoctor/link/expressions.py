"""What an expression over the settings of a launch comes to, without running it: arithmetic, comparisons, texts,
members of enumerations, constants of modules. What cannot be worked out is not known."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from rldoctor.facts.environment import is_allowed
from rldoctor.link.choices import choices
from rldoctor.link.conditions import compared
from rldoctor.link.provided import Provider
from rldoctor.link.sources import Source, Sources
from rldoctor.link.syntax import ENUMERATIONS, defined_as, last_name, parts_of_type, quoted, texts_of
from rldoctor.link.values import FALSE, NONE, NOT_KNOWN, TRUE, Known, Made, Settings, Value, truth
from rldoctor.records import dataclass
from rldoctor.redact.names import is_secret_variable

LONGEST = 32  # a loop that is gone through item by item
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
_TEXTS = ("startswith", "endswith", "lower", "upper", "strip", "split", "replace", "removeprefix", "isdigit")
_BUILT_IN: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (len, int, float, bool, abs, min, max, sum, any, all, round, tuple)
} | {"list": tuple, "set": lambda items: tuple(dict.fromkeys(items))}


@dataclass
class Frame:
    """One call: the source and class that it stands in, its local names, the settings that each came from, whether it
    is certain that it goes on."""

    source: Source
    owner: str
    function: str
    names: dict[str, Value]
    depth: int
    tests: tuple[ast.expr, ...] = ()
    certain: bool = True
    origins: dict[str, frozenset[str]] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    ends: list[dict[str, Value]] = field(default_factory=list)  # the settings where it may have returned


class Expressions(ABC):
    """Works out expressions; ``attributes`` are the settings by dotted name, ``order`` is the class whose object they
    are, where there is one, with those above it. ``variables`` are those of the environment that the launch has, of
    those that :func:`rldoctor.facts.environment.is_allowed` looks for; None where nobody looked."""

    def __init__(self, sources: Sources, variables: Mapping[str, Value] | None) -> None:
        self.sources = sources
        self.provider = Provider(sources)
        self.variables = variables
        self.order: list[tuple[Source, ast.ClassDef]] = []
        self.attributes: dict[str, Value] = {}
        self.raw = False  # whether they are a dictionary of which nothing is made yet
        self.absent = frozenset[str]()  # names that a dictionary of settings certainly does not have
        # The classes of sections, each with those above it, by the dotted name of the section.
        self.orders: dict[str, list[tuple[Source, ast.ClassDef]]] = {}
        self.tags: dict[str, str] = {}  # the field that tells the class of a section, by the section's dotted name
        self._of_class: dict[str, Value] = {}  # what a class gives names that are no fields
        self._enumerations: dict[tuple[str, str], Mapping[str, str]] = {}

    @abstractmethod
    def returned(self, call: ast.Call, frame: Frame) -> Value:
        """What a call returns; not known where that is not certain."""

    @abstractmethod
    def computed(self, setting: str, frame: Frame) -> Value | None:
        """What a property of the object returns; None where it has none of this name."""

    def value(self, node: ast.expr, frame: Frame) -> Value:
        """What an expression comes to."""
        if isinstance(node, ast.Constant):
            return Known(node.value)
        setting = self._setting(node, frame)
        if setting is not None:
            if setting in self.absent and setting not in self.attributes and isinstance(node, ast.Call):
                return self.value(node.args[1], frame) if len(node.args) > 1 else NONE
            return self._at(setting, frame)
        if isinstance(node, ast.Dict) and not node.keys:
            return Known({})
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self._each(node, frame)
        if isinstance(node, ast.Attribute):
            return self._member(node, frame)
        if isinstance(node, ast.Subscript):
            return _item(self.value(node.value, frame), self.value(node.slice, frame))
        if isinstance(node, ast.Name):
            return frame.names[node.id] if node.id in frame.names else self._constant(frame.source, node.id)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [self.value(part, frame) for part in node.elts]
            known = [part.value for part in parts if isinstance(part, Known)]
            return Known(tuple(known)) if len(known) == len(parts) else NOT_KNOWN
        if isinstance(node, ast.BoolOp):
            return self._joined(node, frame)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, frame)
        if isinstance(node, ast.Compare):
            return self._compared(node, frame)
        if isinstance(node, ast.BinOp):
            return _computed(node.op, self.value(node.left, frame), self.value(node.right, frame))
        if isinstance(node, ast.IfExp):
            holds = truth(self.value(node.test, frame))
            return NOT_KNOWN if holds is None else self.value(node.body if holds else node.orelse, frame)
        return self._called(node, frame) if isinstance(node, ast.Call) else NOT_KNOWN

    def _member(self, node: ast.Attribute, frame: Frame) -> Value:
        """A member of an enumeration of texts, or its ``value``: both are the text; what a class above gives a name."""
        owner = node.value
        if node.attr == "value":
            return self.value(owner, frame) if isinstance(owner, ast.Attribute) else NOT_KNOWN
        if isinstance(owner, ast.Name) and any(known.name == owner.id for _, known in self.order):
            return self._of_class.get(node.attr, NOT_KNOWN)
        members = self._members(owner, frame)
        return Known(members[node.attr]) if node.attr in members else self._answered(owner, node.attr, frame)

    def _answered(self, owner: ast.expr, name: str, frame: Frame) -> Value:
        """What a module works out when it is asked for a name, where it does so from a table of functions:
        ``envs.VLLM_USE_V1``."""
        names = self.provider.names(frame.source.name)
        bound = names.bound.get(owner.id) if names is not None and isinstance(owner, ast.Name) else None
        module = ""
        for alias in bound.names if isinstance(bound, ast.Import | ast.ImportFrom) else ():
            if isinstance(owner, ast.Name) and owner.id in (alias.asname, alias.name) and owner.id not in frame.names:
                above = f"{frame.source.origin(bound)}." if isinstance(bound, ast.ImportFrom) else ""
                module = above + alias.name
        source = self.sources.declarations(module) if module else None
        for node in source.tree.body if source is not None else ():
            table = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            for key, value in zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ():
                if key is not None and quoted(key) == name and isinstance(value, ast.Lambda) and source is not None:
                    return self.value(value.body, Frame(source, "", "", {}, 0))
        return NOT_KNOWN

    def _members(self, node: ast.expr, frame: Frame) -> Mapping[str, str]:
        """The members of an enumeration of texts by their names; none of what is no such, or has others beside."""
        name = node.id if isinstance(node, ast.Name) and node.id not in frame.names else ""
        key = (frame.source.name, name)
        if key not in self._enumerations:
            declared = self.provider.definition(*key) if name[:1].isupper() else None
            derived = declared is not None and isinstance(declared.node, ast.ClassDef) and declared.node.bases
            source, found = class_of(self.sources, *key) if derived else (None, None)
            texts = source is not None and found is not None and self._of_texts(source, found)
            self._enumerations[key] = texts_of(found) if texts and found is not None else {}
        return self._enumerations[key]

    def _named_members(self, node: ast.expr, frame: Frame) -> frozenset[str]:
        """The names of an enumeration's members, whatever these are; none where it may know others."""
        name = node.id if isinstance(node, ast.Name) and node.id not in frame.names else ""
        source, found = class_of(self.sources, frame.source.name, name) if name[:1].isupper() else (None, None)
        if source is None or found is None or not self._looks_up(source, found):
            return frozenset()
        known = (ast.Assign, ast.Expr, ast.Pass, ast.FunctionDef)
        targets = [one.targets for one in found.body if isinstance(one, ast.Assign)]
        plain = all(isinstance(one, known) for one in found.body) and all(len(some) == 1 for some in targets)
        names = [last_name(some[0]) for some in targets if isinstance(some[0], ast.Name)]
        return frozenset(names) if plain and len(names) == len(targets) else frozenset()

    def _looks_up(self, source: Source, node: ast.ClassDef) -> bool:
        """Whether a class is an enumeration that finds its members by nothing but their names."""
        for keyword in node.keywords:
            kind = class_of(self.sources, source.name, last_name(keyword.value))[1]
            if keyword.arg != "metaclass" or kind is None or [last_name(base) for base in kind.bases] != ["EnumMeta"]:
                return False
            lookup = defined_as(kind.body, "__getitem__")
            if isinstance(lookup, ast.FunctionDef):
                plain = f"super().__getitem__({lookup.args.args[-1].arg})"
                returned = [part.value for part in ast.walk(lookup) if isinstance(part, ast.Return)]
                if any(one is None or ast.unparse(one) != plain for one in returned):
                    return False
        enumerations = [last_name(base) for base in node.bases if last_name(base) in ENUMERATIONS]
        return bool(enumerations) and all(class_of(self.sources, source.name, name)[1] is None for name in enumerations)

    def _of_texts(self, source: Source, node: ast.ClassDef) -> bool:
        """Whether a class is an enumeration whose members are texts, by what it is made of."""
        bases = {last_name(base) for base in node.bases}
        missing = defined_as(node.body, "_missing_")
        if missing is not None and any(isinstance(part, ast.Return) for part in ast.walk(missing)):
            return False  # it takes other texts for its members too
        if "StrEnum" in bases or bases >= {"str", "Enum"}:
            return True
        above = [class_of(self.sources, source.name, name) for name in bases if name not in ("str", "Enum")]
        return any(s is not None and n is not None and n is not node and self._of_texts(s, n) for s, n in above)

    def _constant(self, source: Source, name: str) -> Value:
        """What a module gives a name once and for all."""
        if not isinstance(source.names.bound.get(name), ast.Assign):
            return NOT_KNOWN
        whole = source if source.bodies else self.sources.whole(source.name)  # a function may change it
        found = whole.constants.get(name) if whole is not None else None
        return self.value(found, Frame(source, "", "", {}, 0)) if found is not None else NOT_KNOWN

    def _setting(self, node: ast.expr, frame: Frame) -> str | None:
        """The dotted name of the setting that an expression is: ``config.data.seed``, ``config["data"]``,
        ``config.get("data")``."""
        owner, name = None, None
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif isinstance(node, ast.Subscript):
            owner, name = node.value, quoted(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            owner, name = node.func.value, quoted(node.args[0]) if node.args else None
        elif isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
            return self._attribute(node, frame)
        if owner is None or name is None:
            return None
        above = self.value(owner, frame)
        return above.below(name) if isinstance(above, Settings) else None

    def _attribute(self, call: ast.Call, frame: Frame) -> str | None:
        """The dotted name of the setting that ``getattr``, ``setattr`` or ``hasattr`` is called for."""
        above, name = self.value(call.args[0], frame), self.value(call.args[1], frame)
        named = isinstance(above, Settings) and isinstance(name, Known) and isinstance(name.value, str)
        return above.below(name.value) if named and isinstance(above, Settings) and isinstance(name, Known) else None

    def _at(self, setting: str, frame: Frame) -> Value:
        if setting in self.attributes:
            return self.attributes[setting]
        if setting in self._of_class:
            return self._of_class[setting]
        found = self.computed(setting, frame)
        if found is not None:
            return found
        section = any(name.startswith(f"{setting}.") for name in self.attributes)
        return Settings(setting) if section else NOT_KNOWN

    def _joined(self, node: ast.BoolOp, frame: Frame) -> Value:
        ends = isinstance(node.op, ast.Or)  # the truth that decides the whole
        values = [self.value(part, frame) for part in node.values]
        truths = [truth(value) for value in values]
        if ends in truths and None in truths[: truths.index(ends)]:
            return TRUE if ends else FALSE
        decided = next((value for value, one in zip(values, truths, strict=True) if one is ends), None)
        if decided is not None:
            return decided
        return NOT_KNOWN if None in truths else values[-1]

    def _unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            holds = truth(value)
            return NOT_KNOWN if holds is None else Known(not holds)
        number = isinstance(value, Known) and isinstance(value.value, int | float)
        return (
            Known(-value.value) if number and isinstance(node.op, ast.USub) and isinstance(value, Known) else NOT_KNOWN
        )

    def _compared(self, node: ast.Compare, frame: Frame) -> Value:
        operands = [self.value(part, frame) for part in (node.left, *node.comparators)]
        results = [
            truth(self._held(op, left, right) if isinstance(right, Settings) else compared(op, left, right))
            for op, left, right in zip(node.ops, operands[:-1], operands[1:], strict=True)
        ]
        return FALSE if False in results else NOT_KNOWN if None in results else TRUE

    def _held(self, op: ast.cmpop, name: Value, settings: Settings) -> Value:
        """Whether a dictionary of settings has a name."""
        if not isinstance(op, ast.In | ast.NotIn) or not isinstance(name, Known) or not isinstance(name.value, str):
            return compared(op, name, settings)
        key = settings.below(name.value)
        if key in self.attributes or any(one.startswith(f"{key}.") for one in self.attributes):
            return Known(isinstance(op, ast.In)) if self.attributes.get(key) is not NOT_KNOWN else NOT_KNOWN
        return Known(isinstance(op, ast.NotIn)) if key in self.absent else NOT_KNOWN

    def _is_of(self, settings: Settings, wanted: ast.expr, frame: Frame) -> Value:
        """Whether a section is of a class, or of one of several; a dictionary where nothing is made of it yet."""
        order = [node for _, node in self.orders.get(settings.name, ())]
        names = [last_name(part) for part in parts_of_type(wanted)]
        if not order:
            # Only code whose settings are OmegaConf's asks for the first; the second is what nothing was made of yet.
            known = "DictConfig" in names or ("dict" in names and self.raw)
            return TRUE if known else NOT_KNOWN
        found = [class_of(self.sources, frame.source.name, name)[1] for name in names]
        if any(one is not None and any(one is known for known in order) for one in found):
            return TRUE
        return FALSE if None not in found else NOT_KNOWN

    def _called(self, node: ast.Call, frame: Frame) -> Value:
        name = last_name(node.func)
        arguments = [self.value(argument, frame) for argument in node.args]
        first = arguments[0] if arguments else NOT_KNOWN
        if name == "get_args" and len(node.args) == 1:
            listed = choices(self.provider, node.args[0], frame.source)
            return Known(listed) if listed is not None else NOT_KNOWN
        if ast.unparse(node.func) in ("os.getenv", "os.environ.get") and isinstance(first, Known):
            variable = str(first.value)
            # A key is often given only where the job itself runs.
            looked = self.variables is not None and is_allowed(variable) and not is_secret_variable(variable, "given")
            unset = (*arguments[1:], NONE)[0] if looked else NOT_KNOWN
            return (self.variables or {}).get(variable, unset)
        if name == "hasattr" and len(node.args) == 2 and isinstance(first, Settings):
            return TRUE if self._attribute(node, frame) in self.attributes else NOT_KNOWN
        if name == "isinstance" and len(node.args) == 2 and isinstance(first, Known):
            wanted = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            types = [_TYPES.get(last_name(part)) for part in wanted]
            if isinstance(first.value, tuple):  # a list, which may be of another library's type
                return NOT_KNOWN
            return NOT_KNOWN if None in types else Known(isinstance(first.value, tuple(t for t in types if t)))
        if name == "isinstance" and len(node.args) == 2 and isinstance(first, Settings):
            return self._is_of(first, node.args[1], frame)
        if name == "get" and isinstance(node.func, ast.Attribute) and self.value(node.func.value, frame) == Known({}):
            return arguments[1] if len(arguments) > 1 else NONE
        # Options with dots in their names are the same settings when they are put one into another.
        if name == "parse_args" or (name == "hierarchize" and first == Settings("")):
            return Settings("")
        if name == "instantiate" and isinstance(first, Settings) and len(arguments) == 1:
            start = f"{first.name}."
            return Made(
                first.name, {k.removeprefix(start): v for k, v in self.attributes.items() if k.startswith(start)}
            )
        if self._members(node.func, frame):  # one that is no member raises before
            return first
        if name in _BUILT_IN and isinstance(node.func, ast.Name) and not node.keywords and arguments:
            values = [argument.value for argument in arguments if isinstance(argument, Known)]
            try:
                return Known(_BUILT_IN[name](*values)) if len(values) == len(arguments) else NOT_KNOWN
            except (TypeError, ValueError, OverflowError):
                return NOT_KNOWN
        if isinstance(node.func, ast.Attribute) and name in _TEXTS and all(isinstance(a, Known) for a in arguments):
            owner = self.value(node.func.value, frame)
            if isinstance(owner, Known) and isinstance(owner.value, str):
                try:
                    made = getattr(owner.value, name)(*(a.value for a in arguments if isinstance(a, Known)))
                except (TypeError, ValueError):
                    return NOT_KNOWN
                return Known(tuple(made) if isinstance(made, list) else made)
        return self.returned(node, frame)

    def _each(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, frame: Frame) -> Value:
        """What a comprehension over known items comes to."""
        one = node.generators[0]
        through = self.value(one.iter, frame)
        items = through.value if isinstance(through, Known) and isinstance(through.value, tuple) else None
        if items is None or len(node.generators) > 1 or not isinstance(one.target, ast.Name) or len(items) > LONGEST:
            return NOT_KNOWN
        found: list[Any] = []
        for item in items:
            inner = replace(frame, names={**frame.names, one.target.id: Known(item)})
            tests = [truth(self.value(test, inner)) for test in one.ifs]
            value = self.value(node.elt, inner)
            if None in tests or (False not in tests and not isinstance(value, Known)):
                return NOT_KNOWN
            if isinstance(value, Known) and False not in tests:
                found.append(value.value)
        return Known(tuple(dict.fromkeys(found) if isinstance(node, ast.SetComp) else found))

    def _text(self, node: ast.expr, frame: Frame) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(part, frame) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._text(node.value, frame)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._text(node.left, frame) + self._text(node.right, frame)
        value = self.value(node, frame)
        return str(value.value) if isinstance(value, Known) else "…"


def class_of(sources: Sources, module: str, name: str) -> tuple[Source | None, ast.ClassDef | None]:
    """A class of a module, or one that the module passes on."""
    stated = sources.declarations(module)
    declared = defined_as(stated.tree.body if stated is not None else (), name)
    if declared is None and stated is not None:
        definition = Provider(sources).definition(module, name)
        stated, declared = (definition.source, definition.node) if definition is not None else (None, None)
    # The bodies of functions are read of what is a class alone.
    source = sources.whole(stated.name) if stated is not None and isinstance(declared, ast.ClassDef) else None
    named = declared.name if isinstance(declared, ast.ClassDef) else name  # it may be imported under another
    found = defined_as(source.tree.body if source is not None else (), named)
    return (source, found) if isinstance(found, ast.ClassDef) else (None, None)


def _item(of: Value, at: Value) -> Value:
    """One item of several by its place. Of options that take several numbers it may be a text, as the shell hands it
    on: not known."""
    if not isinstance(of, Known) or not isinstance(of.value, tuple) or not isinstance(at, Known):
        return NOT_KNOWN
    place = at.value
    if type(place) is not int or not -len(of.value) <= place < len(of.value):
        return NOT_KNOWN
    return Known(of.value[place]) if not isinstance(of.value[place], str) else NOT_KNOWN


def _computed(op: ast.operator, left: Value, right: Value) -> Value:
    if type(op) not in _ARITHMETIC or not isinstance(left, Known) or not isinstance(right, Known):
        return NOT_KNOWN
    numbers = all(isinstance(value, int | float) for value in (left.value, right.value))
    alike = isinstance(op, ast.Add) and any(
        isinstance(left.value, kind) and isinstance(right.value, kind) for kind in (str, tuple)
    )
    if not numbers and not alike:
        return NOT_KNOWN
    try:
        return Known(_ARITHMETIC[type(op)](left.value, right.value))
    except (ArithmeticError, TypeError):
        return NOT_KNOWN
