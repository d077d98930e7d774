"""What a framework's own validation refuses of a launch's settings: the ``__post_init__`` of its argument class, or the
function that looks at its configuration, is followed statement by statement with the values that are given, without
running any of it.

A refusal is told only where it is certain: every condition on the way to it could be worked out, nothing that comes
before can have changed what the condition reads, and no return that may be taken comes first."""

from __future__ import annotations

import ast
import contextlib
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeGuard

from rldoctor.link.bounds import Bound, bounds
from rldoctor.link.conditions import compared
from rldoctor.link.provided import Provider
from rldoctor.link.sources import Source, Sources
from rldoctor.link.values import FALSE, NOT_KNOWN, TRUE, Known, Settings, Value, truth

_DEEPEST = 16  # methods that call methods
_LONGEST = 32  # a loop that is gone through item by item
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
# What does not change the settings that it is given; the last two rows are OmegaConf's.
_PURE = frozenset(
    [
        *("isinstance", "getattr", "hasattr", "len", "str", "print", "type", "repr", "id", "super", "pprint", "vars"),
        *("info", "warning", "warning_once", "debug", "error", "warn"),
        *("open_dict", "to_container", "select", "is_missing", "to_yaml", "is_config", "resolve"),
        *("get", "keys", "items", "values"),
    ]
)
_MOST_RESULTS = 100  # calls whose result is worked out for one launch, each by so many statements
_STATEMENTS_OF_RESULT = 100
_MOST_STATEMENTS = 20_000  # followed for one launch, functions that are called included


@dataclass(frozen=True)
class Refusal:
    """An exception that the settings lead to: its type and message (``…`` for what is not known), where it is raised,
    the condition around it, and the settings that the condition reads."""

    type: str
    message: str
    file: str
    line: int
    function: str
    condition: str
    reads: tuple[str, ...]

    def below(self, section: str) -> Refusal:
        """The refusal of a class whose fields are a section of the settings."""
        return replace(self, reads=tuple(f"{section}.{name}" for name in self.reads))

    def plain(self) -> dict[str, Any]:
        """The refusal as plain JSON."""
        return {**asdict(self), "reads": list(self.reads)}


def refusal(
    sources: Sources, module: str, name: str, given: Mapping[str, Any], complete: bool = True, method: str = ""
) -> Refusal | None:
    """What the class ``name`` of a module raises for the settings ``given`` by their fields, when an object of it is
    made and then its ``method`` is called, where one is named; None where nothing is certain. Where the launch may give
    more than was read (``complete`` is false), no field has its default. The class is found whatever its name's
    case."""
    source, found = _class(sources, module, name)
    if source is None or found is None:
        return None
    follower = _Follower(sources, complete)
    follower.take(source, found, given, method)

    def follow() -> None:
        follower.construct()
        if method:
            follower.method(method, 0)

    return _raised(follow)


def refusal_of_call(
    sources: Sources, module: str, name: str, settings: str, given: Mapping[str, Any]
) -> Refusal | None:
    """What a function or method of a module (``Trainer._validate``) raises, or, where ``name`` is empty, what runs when
    the module is the program. ``given`` holds the settings by their dotted names, ``settings`` is what the code calls
    them: a parameter (``config``), an attribute (``self.config``); what the arguments of a program are parsed to is
    them as well."""
    source = sources.whole(module)
    body: Sequence[ast.stmt] = source.tree.body if source is not None else ()
    function: ast.stmt | None = None
    for part in name.split(".") if name else ():
        function = _named(body, part)
        body = function.body if isinstance(function, ast.ClassDef | ast.FunctionDef) else ()
    if not name:
        body = next((n.body for n in body if isinstance(n, ast.If) and "__main__" in ast.unparse(n.test)), ())
    if source is None or not body:
        return None
    follower = _Follower(sources, complete=True)
    follower.attributes = {key: plain_value(value) for key, value in given.items()}
    owner, _, attribute = settings.rpartition(".")
    names: dict[str, Value] = {owner: Settings(owner), settings: NOT_KNOWN} if owner else {settings: Settings("")}
    if attribute and owner:
        follower.attributes[settings] = Settings("")
    frame = _Frame(source, "", name or "the program", names, 0)
    return _raised(lambda: follower.follow(list(body), frame))


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


def _raised(follow: Callable[[], None]) -> Refusal | None:
    try:
        follow()
    except _RefusedError as refused:
        return refused.refusal
    except (_LeftError, RecursionError):
        return None
    return None


def _class(sources: Sources, module: str, name: str) -> tuple[Source | None, ast.ClassDef | None]:
    """A class of a module, or one that the module passes on."""
    source = sources.whole(module)
    found = _named(source.tree.body if source is not None else (), name)
    if found is None and source is not None:
        definition = Provider(sources).definition(module, name)
        source = sources.whole(definition.source.name) if definition is not None else None
        found = _named(source.tree.body if source is not None else (), name)
    return (source, found) if isinstance(found, ast.ClassDef) else (None, None)


def _named(body: Iterable[ast.stmt], name: str) -> ast.stmt | None:
    """The class or function of this name, whatever its case."""
    defined = (n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef))
    return next((n for n in defined if n.name.lower() == name.lower()), None)


class _RefusedError(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class _LeftError(Exception):
    """A return that is certain, and what it returns."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


@dataclass
class _Frame:
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


@dataclass
class _Given:
    """The arguments of a call, each a value and the settings that it is made of; None stands for the object itself.
    ``more`` where some are handed on as a whole."""

    positional: Sequence[tuple[Value, frozenset[str]] | None]
    named: Mapping[str, tuple[Value, frozenset[str]]] = field(default_factory=dict)
    more: bool = False


class _Follower:
    """Follows code that reads settings; ``attributes`` are their values by dotted name. Where the code is an argument
    class, its object is the settings: ``self.steps`` reads ``steps``."""

    def __init__(self, sources: Sources, complete: bool) -> None:
        self.sources = sources
        self.complete = complete
        self.provider = Provider(sources)
        self.order: list[tuple[Source, ast.ClassDef]] = []
        self.whole = True  # whether every class above could be read
        self.attributes: dict[str, Value] = {}
        self.volatile = frozenset[str]()
        self._left = _MOST_STATEMENTS
        self._results = _MOST_RESULTS
        self._asking: list[str] = []  # functions whose result is being worked out
        self._made_of: dict[str, frozenset[str]] = {}  # the settings that one was computed from
        self._of_class: dict[str, Value] = {}  # what a class gives names that are no fields
        self._constants: dict[str, dict[str, ast.expr]] = {}
        self._enumerations: dict[tuple[str, str], Mapping[str, str]] = {}

    def take(self, source: Source, node: ast.ClassDef, given: Mapping[str, Any], method: str = "") -> None:
        """Makes the fields of a class the settings; ``method`` is called once its object is made."""
        self._linearize(source, node)
        # Fields that a method on the way may set, in quotes as ``setattr`` takes them too; the others stay as they are.
        self.volatile = frozenset(_set_on_the_way([known for _, known in self.order], method))
        self._fill(given)

    def construct(self) -> None:
        """Follows what runs when an object of the class is made."""
        for source, node in reversed(self.order):
            if not self._validated(source, node):
                continue
            for found in bounds(node):
                self._hold(found, source, node)
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign):
                    self._choose(statement, source, node)
        self.method("__post_init__", 0)
        for _, node in self.order:
            for function in node.body:
                if isinstance(function, ast.FunctionDef) and any(map(_validates, function.decorator_list)):
                    self.method(function.name, 0)

    def _hold(self, bound: Bound, source: Source, node: ast.ClassDef) -> None:
        """Refuses a number beyond the bound of its field."""
        value = self.attributes.get(bound.field)
        if isinstance(value, Known) and type(value.value) in (int, float) and not bound.holds(value.value):
            path = self.sources.search.relative(source.path)
            said = f"{bound.field} is {value.value}, which should be {bound.words}"
            condition = f"not {bound.field} {bound.sign} {bound.limit}"
            raise _RefusedError(
                Refusal("ValidationError", said, path, bound.line, node.name, condition, (bound.field,))
            )

    def _validated(self, source: Source, node: ast.ClassDef) -> bool:
        """Whether pydantic may look at the fields of a class; a dataclass of the standard library takes anything."""
        names = self.provider.names(source.name)
        stated = names.bound.get("dataclass") if names is not None else None
        plain = isinstance(stated, ast.ImportFrom) and stated.module == "dataclasses"
        marks = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
        return "pydantic" in source.text and not (plain and any(_last(mark) == "dataclass" for mark in marks))

    def _choose(self, statement: ast.AnnAssign, source: Source, node: ast.ClassDef) -> None:
        """Refuses a text that the ``Literal`` of its field does not name."""
        name = _last(statement.target)
        value = self.attributes.get(name)
        if not isinstance(value, Known) or type(value.value) is not str:
            return
        choices = self._choices(statement.annotation, source)
        if choices is not None and value.value not in choices:
            path = self.sources.search.relative(source.path)
            listed = ", ".join(str(choice) for choice in choices)
            said = f"{name} is {value.value!r}, which should be one of {listed}"
            condition = f"{name} not in ({listed})"
            raise _RefusedError(Refusal("ValidationError", said, path, statement.lineno, node.name, condition, (name,)))

    def _choices(self, annotation: ast.expr, source: Source, depth: int = 0) -> tuple[Any, ...] | None:
        """The values that an annotation leaves, where it is made of nothing but ``Literal`` and None; a name may stand
        for such."""
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return ()
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            both = [self._choices(part, source, depth) for part in (annotation.left, annotation.right)]
            return None if None in both else tuple(one for part in both if part is not None for one in part)
        if isinstance(annotation, ast.Subscript):
            listed = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            parts: list[tuple[Any, ...] | None] = []
            for part in listed:
                plain = isinstance(part, ast.Constant) and _last(annotation.value) == "Literal"
                parts.append((part.value,) if plain and isinstance(part, ast.Constant) else self._choices(part, source))
            inside = _last(annotation.value) in ("Literal", "Optional", "Union") and depth < _DEEPEST
            return None if None in parts or not inside else tuple(one for part in parts if part for one in part)
        if isinstance(annotation, ast.Name) and depth < _DEEPEST:
            names = self.provider.names(source.name)
            stated = names.bound.get(annotation.id) if names is not None else None
            if isinstance(stated, ast.ImportFrom):
                above = self.sources.whole(source.origin(stated))
                original = next((a.name for a in stated.names if (a.asname or a.name) == annotation.id), "")
                return self._choices(ast.Name(original), above, depth + 1) if above is not None else None
            # The outline of a module has no values: these stand in the whole of it.
            whole = self.sources.whole(source.name)
            values = [n.value for n in whole.tree.body if _gives(n, annotation.id)] if whole is not None else []
            return self._choices(values[0], source, depth + 1) if len(values) == 1 and values[0] is not None else None
        return None

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
            frame = _Frame(source, node.name, "", {}, 0)
            for statement in node.body:
                if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                    self._of_class[_last(statement.targets[0])] = self.value(statement.value, frame)
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    name = statement.target.id
                    default = self._default(statement.value, frame) if self.complete else NOT_KNOWN
                    value = given.get(name, default)
                    known = value is not NOT_KNOWN and not isinstance(value, Known)
                    self.attributes[name] = self._typed(value, statement.annotation, source) if known else value

    def _typed(self, value: Any, annotation: ast.expr, source: Source) -> Value:
        """A setting as its field has it; where a name stands for texts to choose from, it is the text."""
        found = typed(value, ast.unparse(annotation))
        choices = self._choices(annotation, source) if found is NOT_KNOWN and isinstance(value, str) else None
        texts = choices and all(choice is None or isinstance(choice, str) for choice in choices)
        return Known(value.strip()) if texts else found

    def _default(self, node: ast.expr | None, frame: _Frame) -> Value:
        if isinstance(node, ast.Call):
            found = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
            return self.value(found, frame) if found is not None else NOT_KNOWN
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._default_of(node.value.id, node.attr, frame)
        return self.value(node, frame) if isinstance(node, ast.Constant | ast.UnaryOp) else NOT_KNOWN

    def _default_of(self, name: str, wanted: str, frame: _Frame) -> Value:
        """The default of a field of another class, which a class may take for its own."""
        source, node = _class(self.sources, frame.source.name, name)
        for field_ in node.body if node is not None else ():
            if isinstance(field_, ast.AnnAssign) and _last(field_.target) == wanted and source is not None:
                return self._default(field_.value, _Frame(source, name, "", {}, 0))
        return NOT_KNOWN

    # Calls

    def method(self, name: str, depth: int, after: str = "", certain: bool = True, given: _Given | None = None) -> None:
        """Follows a method of the object, with the values that it is given by their names; with ``after``, that of the
        classes behind the one of this name."""
        found = self._method(name, after)
        if found is not None:
            source, owner, function = found
            if depth > _DEEPEST or not all(map(_validates, function.decorator_list)):
                self._forget()
                return
            frame = _Frame(source, owner, f"{owner}.{function.name}", {}, depth, certain=certain)
            self._bind(function, frame, given or _Given([None]))
            self._enter(function, frame)
        elif not self.whole or name != "__post_init__":
            self._forget()

    def _method(self, name: str, after: str = "") -> tuple[Source, str, ast.FunctionDef] | None:
        """Where a method or property of the object stands, the class that has it, and itself."""
        names = [node.name for _, node in self.order]
        for source, node in self.order[names.index(after) + 1 if after in names else 0 :]:
            function = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
            if function is not None:
                return source, node.name, function
        return None

    def _property(self, name: str) -> tuple[Source, str, ast.FunctionDef] | None:
        found = self._method(name) if self.order else None
        marks = [_last(one) for one in found[2].decorator_list] if found is not None else []
        return found if marks == ["property"] else None

    def _bind(self, function: ast.FunctionDef, frame: _Frame, given: _Given) -> None:
        """Gives the parameters of a function their values; ``self`` is the settings."""
        parameters = [*function.args.posonlyargs, *function.args.args]
        bound: dict[str, Value] = {a.arg: NOT_KNOWN for a in (*parameters, *function.args.kwonlyargs)}
        defaults = function.args.defaults
        for parameter, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
            bound[parameter.arg] = self.value(default, frame)
        for parameter, one in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
            bound[parameter.arg] = self.value(one, frame) if one is not None else NOT_KNOWN
        names = [parameter.arg for parameter in parameters]
        given_by_name = {**dict(zip(names, given.positional, strict=False)), **given.named}
        for name, argument in given_by_name.items():
            bound[name] = argument[0] if argument is not None else Settings("")
            if argument is not None:
                frame.origins[name] = argument[1]
        # What is given as ``*args`` or ``**more`` may stand for any of them.
        frame.names |= dict.fromkeys(bound, NOT_KNOWN) if given.more else bound
        if "self" in bound and self.order:
            frame.names["self"] = Settings("")

    def _given(self, call: ast.Call, frame: _Frame, method: bool = False) -> _Given:
        """The arguments of a call, each with the settings that it is made of."""
        more = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
        positional = [(self.value(a, frame), self._reads(a, frame)) for a in call.args]
        named = {k.arg: (self.value(k.value, frame), self._reads(k.value, frame)) for k in call.keywords if k.arg}
        return _Given([None, *positional] if method else [*positional], named, more)

    def _returned(self, call: ast.Call, frame: _Frame) -> Value:
        """What a method of the object, or a function of the package, returns; not known where that is not certain."""
        function = call.func
        if isinstance(function, ast.Attribute):
            own = isinstance(function.value, ast.Name) and function.value.id == "self"
            found = self._method(function.attr) if own and self.order else None
            given = self._given(call, frame, method=True) if found is not None else _Given([])
        else:
            helper = self._function(call, frame)
            found = (helper[0], "", helper[1]) if helper is not None else None
            given = self._given(call, frame) if found is not None else _Given([])
        return self._result(found, given, frame) if found is not None and not found[2].decorator_list else NOT_KNOWN

    def _result(self, found: tuple[Source, str, ast.FunctionDef], given: _Given, frame: _Frame) -> Value:
        source, owner, function = found
        self._results -= 1
        if frame.depth > _DEEPEST or self._results < 0 or function.name in self._asking:
            return NOT_KNOWN
        inner = _Frame(source, owner, function.name, {}, frame.depth + 1)
        if function is frame.functions.get(function.name):
            inner.names, inner.functions = dict(frame.names), frame.functions
        self._bind(function, inner, given)
        before, left = dict(self.attributes), self._left
        self._left = min(left, _STATEMENTS_OF_RESULT)
        self._asking.append(function.name)
        try:
            self.follow(function.body, inner)
        except _LeftError as returned:
            return returned.value
        except (_RefusedError, RecursionError):
            return NOT_KNOWN
        finally:
            self._asking.pop()
            self.attributes, self._left = before, left
        return NOT_KNOWN if inner.ends or not inner.certain or _yields(function) else Known(None)

    def _enter(self, function: ast.FunctionDef, frame: _Frame) -> None:
        with contextlib.suppress(_LeftError):
            self.follow(function.body, frame)
        if frame.ends:
            self.attributes = _merged([self.attributes, *frame.ends])

    def _forget(self, below: str = "") -> None:
        """What is not followed may change whatever it is given; an object of the class whatever some method changes."""
        start = f"{below}." if below else ""
        names = self.volatile if self.order and not below else (n for n in self.attributes if n.startswith(start))
        self.attributes |= dict.fromkeys(list(names), NOT_KNOWN)

    # Statements

    def follow(self, body: list[ast.stmt], frame: _Frame) -> None:
        for node in body:
            self._statement(node, frame)

    def _statement(self, node: ast.stmt, frame: _Frame) -> None:
        self._left -= 1
        if self._left < 0:
            raise RecursionError
        if isinstance(node, ast.FunctionDef):
            frame.functions[node.name] = node
        elif isinstance(node, ast.If):
            self._if(node, frame)
        elif isinstance(node, ast.Raise):
            self._raise(node, frame)
        elif isinstance(node, ast.Assert):
            self._effects(node.test, frame)
            if truth(self.value(node.test, frame)) is False:
                self._refuse("AssertionError", node.msg, node, frame, (*frame.tests, node.test))
        elif isinstance(node, ast.Return):
            self._effects(node.value, frame)
            if frame.certain:
                raise _LeftError(self.value(node.value, frame) if node.value is not None else Known(None))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assign(node, frame)
        elif isinstance(node, ast.With):
            for item in node.items:
                self._effects(item.context_expr, frame)
            self._perhaps([node.body], frame)
        elif isinstance(node, ast.Try | ast.TryStar):
            handlers = [handler.body for handler in node.handlers]
            self._perhaps([[*node.body, *node.orelse], *handlers], frame)
            self.follow(node.finalbody, frame)
        elif isinstance(node, ast.For) and (items := self._items(node, frame)) is not None:
            for item in items:
                frame.names[_last(node.target)] = Known(item)
                self.follow(node.body, frame)
        elif isinstance(node, ast.For | ast.While | ast.AsyncFor | ast.AsyncWith | ast.Match):
            cases = [case.body for case in node.cases] if isinstance(node, ast.Match) else [node.body]
            self._perhaps([*cases, []], frame)
            self._lose(node, frame)
        elif isinstance(node, ast.Expr):
            self._effects(node.value, frame)

    def _items(self, node: ast.For, frame: _Frame) -> tuple[Any, ...] | None:
        """What a loop goes through from first to last, where that is known."""
        through = self.value(node.iter, frame)
        known = isinstance(through, Known) and isinstance(through.value, tuple)
        leaves = any(isinstance(part, ast.Break | ast.Continue) for part in _parts(node.body))
        if not known or leaves or node.orelse or not isinstance(node.target, ast.Name):
            return None
        return through.value if isinstance(through, Known) and len(through.value) <= _LONGEST else None

    def _if(self, node: ast.If, frame: _Frame) -> None:
        self._effects(node.test, frame)
        holds = truth(self.value(node.test, frame))
        if holds is None:
            self._perhaps([node.body, node.orelse], frame)
            return
        before = frame.tests
        frame.tests = (*before, node.test)
        self.follow(node.body if holds else node.orelse, frame)
        frame.tests = before

    def _perhaps(self, branches: list[list[ast.stmt]], frame: _Frame) -> None:
        """Follows several ways of which nobody knows which is taken: what they make different is not known."""
        names, attributes, certain = dict(frame.names), dict(self.attributes), frame.certain
        results = []
        for body in branches:
            frame.names, self.attributes, frame.certain = dict(names), dict(attributes), False
            self.follow(body, frame)
            results.append((frame.names, self.attributes))
        frame.names = _merged([result[0] for result in results])
        self.attributes = _merged([result[1] for result in results])
        # What follows is reached only where no branch returned; one that raises refuses as well.
        returns = any(isinstance(part, ast.Return | ast.Break) for body in branches for part in _parts(body))
        frame.certain = certain and not returns
        if returns:
            frame.ends.append(dict(self.attributes))

    def _lose(self, node: ast.stmt, frame: _Frame) -> None:
        """What a loop assigns is not known behind it."""
        for part in _parts([node]):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                frame.names[part.id] = NOT_KNOWN
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                ended = (name for name in self.attributes if name.rpartition(".")[2] == part.attr)
                self.attributes |= dict.fromkeys((part.attr, *ended), NOT_KNOWN)
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                self._changes(self.value(part.value, frame))

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, frame: _Frame) -> None:
        self._effects(node.value, frame)
        known = node.value is not None and not isinstance(node, ast.AugAssign)
        value = self.value(node.value, frame) if known and node.value is not None else NOT_KNOWN
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            setting = self._setting(target, frame)
            if isinstance(target, ast.Name):
                frame.names[target.id] = value
                frame.origins[target.id] = self._reads(node.value, frame) if node.value is not None else frozenset()
            elif setting is not None:
                self._forget(setting)
                self.attributes[setting] = value
                self._made_of[setting] = self._reads(node.value, frame) if node.value is not None else frozenset()
            else:
                self._lose(node, frame)

    def _raise(self, node: ast.Raise, frame: _Frame) -> None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        said = node.exc.args[0] if isinstance(node.exc, ast.Call) and node.exc.args else None
        self._refuse(_last(raised), said, node, frame, frame.tests)

    def _refuse(
        self, type_: str, said: ast.expr | None, node: ast.expr | ast.stmt, frame: _Frame, tests: tuple[ast.expr, ...]
    ) -> None:
        if not frame.certain or not tests:
            return
        reads = dict.fromkeys(name for test in tests for name in sorted(self._reads(test, frame)))
        raise _RefusedError(
            Refusal(
                type_,
                self._text(said, frame) if said is not None else "",
                self.sources.search.relative(frame.source.path),
                node.lineno,
                frame.function,
                ast.unparse(tests[-1]),
                tuple(name for name in reads if not isinstance(self.attributes[name], Settings)),
            )
        )

    def _reads(self, node: ast.expr, frame: _Frame) -> frozenset[str]:
        """The settings that an expression is made of."""
        found: set[str] = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                found |= frame.origins.get(part.id, frozenset())
            elif isinstance(part, ast.expr) and (name := self._setting(part, frame)) is not None:
                made = self._property(name) if name not in self.attributes else None
                for one in map(_own, _parts(made[2].body)) if made is not None else (name,):
                    found |= {one, *self._made_of.get(one, ())} if one is not None and one in self.attributes else set()
        return frozenset(found)

    def _changes(self, given: Value) -> None:
        if isinstance(given, Settings):
            self._forget(given.name)

    def _effects(self, node: ast.expr | None, frame: _Frame) -> None:
        """What the calls in an expression do to the settings."""
        for call, certain in self._calls(node, frame) if node is not None else ():
            function = call.func
            passed = [self.value(a, frame) for a in (*call.args, *(k.value for k in call.keywords))]
            whole = self.order and Settings("") in passed
            if isinstance(function, ast.Attribute) and self.order:
                owner = function.value
                if isinstance(owner, ast.Name) and owner.id == "self":
                    self._followed(function.attr, frame, "", self._given(call, frame, method=True))
                    continue
                if isinstance(owner, ast.Call) and _last(owner.func) == "super":
                    self._followed(function.attr, frame, frame.owner, self._given(call, frame, method=True))
                    continue
                behind = self._behind(owner)
                if whole and behind is not None:
                    self._followed(function.attr, frame, behind, self._given(call, frame))
                    continue
            if _last(function) == "setattr" and len(call.args) == 3 and (named := self._attribute(call, frame)):
                self.attributes[named] = self.value(call.args[2], frame)
                continue
            if certain and frame.certain:
                self._pick(call, frame)
                self._make(call, frame)
            if _last(function) in _PURE or (not self.order and self._helped(call, frame)):
                continue
            owned = [self.value(function.value, frame)] if isinstance(function, ast.Attribute) else []
            for value in (*passed, *owned):
                self._changes(value)

    def _calls(self, node: ast.expr, frame: _Frame, certain: bool = True) -> Iterator[tuple[ast.Call, bool]]:
        """The calls in an expression, and whether each is certain to be made."""
        if isinstance(node, ast.Call):
            yield node, certain
        parts = [(child, certain) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.IfExp):
            holds = truth(self.value(node.test, frame))
            ways = [(node.body, certain and holds is True), (node.orelse, certain and holds is False)]
            parts = [(node.test, certain), *ways]
        elif isinstance(node, ast.BoolOp):
            parts = [(value, certain and not position) for position, value in enumerate(node.values)]
        elif isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            parts = [(child, False) for child, _ in parts]
        for child, sure in parts:
            if isinstance(child, ast.keyword | ast.comprehension):
                yield from (
                    (call, one)
                    for part in ast.iter_child_nodes(child)
                    if isinstance(part, ast.expr)
                    for call, one in self._calls(part, frame, sure)
                )
            elif isinstance(child, ast.expr):
                yield from self._calls(child, frame, sure)

    def _pick(self, call: ast.Call, frame: _Frame) -> None:
        """Refuses a text that is no member of the enumeration which it is looked up in."""
        members = self._members(call.func, frame)
        given = self.value(call.args[0], frame) if len(call.args) == 1 and members else NOT_KNOWN
        if isinstance(given, Known) and isinstance(given.value, str) and given.value not in members.values():
            said = f"{given.value!r} is not a valid {_last(call.func)}: it is one of {', '.join(members.values())}"
            self._refuse("ValueError", ast.Constant(said), call, frame, (*frame.tests, call))

    def _make(self, call: ast.Call, frame: _Frame) -> None:
        """Follows what runs when an object of another class is made of settings by their names."""
        named = isinstance(call.func, ast.Name) and not call.args and all(k.arg for k in call.keywords)
        if not named or not call.keywords or frame.depth > _DEEPEST:
            return
        source, node = _class(self.sources, frame.source.name, _last(call.func))
        if source is None or node is None:
            return
        inner = _Follower(self.sources, complete=True)
        inner.provider, inner._left = self.provider, self._left // 2
        inner.take(source, node, {k.arg: self.value(k.value, frame) for k in call.keywords if k.arg is not None})
        found = _raised(inner.construct)
        if found is not None:
            origins = {k.arg: sorted(self._reads(k.value, frame)) for k in call.keywords}
            reads = dict.fromkeys(one for name in found.reads for one in origins.get(name, ()))
            raise _RefusedError(replace(found, reads=tuple(reads)))

    def _helped(self, call: ast.Call, frame: _Frame) -> bool:
        """Follows a function that was defined on the way, or one of the package itself that gets settings."""
        if not isinstance(call.func, ast.Name) or frame.depth > _DEEPEST:
            return False
        found = self._function(call, frame)
        if found is None:
            return False
        source, function = found
        inner = _Frame(source, "", function.name, {}, frame.depth + 1, certain=frame.certain)
        if function is frame.functions.get(function.name):
            inner.names, inner.functions = dict(frame.names), frame.functions
        self._bind(function, inner, self._given(call, frame))
        self._enter(function, inner)
        return True

    def _function(self, call: ast.Call, frame: _Frame) -> tuple[Source, ast.FunctionDef] | None:
        """A function that was defined on the way, or one of the package itself, with the source that it stands in."""
        name = _last(call.func) if isinstance(call.func, ast.Name) else ""
        if name in frame.functions:
            return frame.source, frame.functions[name]
        definition = self.provider.definition(frame.source.name, name) if name else None
        above = self.sources.whole(definition.source.name) if definition is not None else None
        named = _named(above.tree.body, definition.node.name) if above is not None and definition else None
        plain = above is not None and isinstance(named, ast.FunctionDef) and not named.decorator_list
        return (above, named) if plain and above is not None and isinstance(named, ast.FunctionDef) else None

    def _followed(self, name: str, frame: _Frame, after: str, given: _Given) -> None:
        known = after if after in [node.name for _, node in self.order] else ""
        self.method(name, frame.depth + 1, known, frame.certain, given)

    def _behind(self, owner: ast.expr) -> str | None:
        """For ``Base.method(self)`` the class before ``Base`` in the order."""
        names = [node.name for _, node in self.order]
        name = _last(owner)
        return names[names.index(name) - 1] if name in names[1:] else None

    # Expressions

    def value(self, node: ast.expr, frame: _Frame) -> Value:
        if isinstance(node, ast.Constant):
            return Known(node.value)
        setting = self._setting(node, frame)
        if setting is not None:
            return self._at(setting, frame)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self._each(node, frame)
        if isinstance(node, ast.Attribute):
            return self._member(node, frame)
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

    def _member(self, node: ast.Attribute, frame: _Frame) -> Value:
        """A member of an enumeration of texts, or its ``value``: both are the text; what a class above gives a name."""
        owner = node.value
        if node.attr == "value":
            return self.value(owner, frame) if isinstance(owner, ast.Attribute) else NOT_KNOWN
        if isinstance(owner, ast.Name) and any(known.name == owner.id for _, known in self.order):
            return self._of_class.get(node.attr, NOT_KNOWN)
        members = self._members(owner, frame)
        return Known(members[node.attr]) if node.attr in members else NOT_KNOWN

    def _members(self, node: ast.expr, frame: _Frame) -> Mapping[str, str]:
        """The members of an enumeration of texts by their names; none of what is no such, or has others beside."""
        name = node.id if isinstance(node, ast.Name) and node.id not in frame.names else ""
        key = (frame.source.name, name)
        if key not in self._enumerations:
            source, found = _class(self.sources, *key) if name[:1].isupper() else (None, None)
            texts = source is not None and found is not None and self._of_texts(source, found)
            self._enumerations[key] = _texts(found) if texts and found is not None else {}
        return self._enumerations[key]

    def _of_texts(self, source: Source, node: ast.ClassDef) -> bool:
        """Whether a class is an enumeration whose members are texts, by what it is made of."""
        bases = {_last(base) for base in node.bases}
        missing = _named(node.body, "_missing_")
        if missing is not None and any(isinstance(part, ast.Return) for part in ast.walk(missing)):
            return False  # it takes other texts for its members too
        if "StrEnum" in bases or bases >= {"str", "Enum"}:
            return True
        above = [_class(self.sources, source.name, name) for name in bases if name not in ("str", "Enum")]
        return any(s is not None and n is not None and n is not node and self._of_texts(s, n) for s, n in above)

    def _constant(self, source: Source, name: str) -> Value:
        """What a module gives a name once and for all."""
        if source.name not in self._constants:
            self._constants[source.name] = _constants(source.tree)
        found = self._constants[source.name].get(name)
        return self.value(found, _Frame(source, "", "", {}, 0)) if found is not None else NOT_KNOWN

    def _setting(self, node: ast.expr, frame: _Frame) -> str | None:
        """The dotted name of the setting that an expression is: ``config.data.seed``, ``config["data"]``,
        ``config.get("data")``."""
        owner, name = None, None
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif isinstance(node, ast.Subscript):
            owner, name = node.value, _quoted(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            owner, name = node.func.value, _quoted(node.args[0]) if node.args else None
        elif isinstance(node, ast.Call) and _last(node.func) == "getattr" and len(node.args) > 1:
            return self._attribute(node, frame)
        if owner is None or name is None:
            return None
        above = self.value(owner, frame)
        return above.below(name) if isinstance(above, Settings) else None

    def _attribute(self, call: ast.Call, frame: _Frame) -> str | None:
        """The dotted name of the setting that ``getattr`` or ``setattr`` is called for."""
        above, name = self.value(call.args[0], frame), self.value(call.args[1], frame)
        named = isinstance(above, Settings) and isinstance(name, Known) and isinstance(name.value, str)
        return above.below(name.value) if named and isinstance(above, Settings) and isinstance(name, Known) else None

    def _at(self, setting: str, frame: _Frame) -> Value:
        if setting in self.attributes:
            return self.attributes[setting]
        if setting in self._of_class:
            return self._of_class[setting]
        found = self._property(setting)
        if found is not None:
            return self._result(found, _Given([None]), frame)
        section = any(name.startswith(f"{setting}.") for name in self.attributes)
        return Settings(setting) if section else NOT_KNOWN

    def _joined(self, node: ast.BoolOp, frame: _Frame) -> Value:
        ends = isinstance(node.op, ast.Or)  # the truth that decides the whole
        values = [self.value(part, frame) for part in node.values]
        truths = [truth(value) for value in values]
        if ends in truths and None in truths[: truths.index(ends)]:
            return TRUE if ends else FALSE
        decided = next((value for value, one in zip(values, truths, strict=True) if one is ends), None)
        if decided is not None:
            return decided
        return NOT_KNOWN if None in truths else values[-1]

    def _unary(self, node: ast.UnaryOp, frame: _Frame) -> Value:
        value = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            holds = truth(value)
            return NOT_KNOWN if holds is None else Known(not holds)
        number = isinstance(value, Known) and isinstance(value.value, int | float)
        return (
            Known(-value.value) if number and isinstance(node.op, ast.USub) and isinstance(value, Known) else NOT_KNOWN
        )

    def _compared(self, node: ast.Compare, frame: _Frame) -> Value:
        operands = [self.value(part, frame) for part in (node.left, *node.comparators)]
        results = [
            truth(compared(op, left, right))
            for op, left, right in zip(node.ops, operands[:-1], operands[1:], strict=True)
        ]
        return FALSE if False in results else NOT_KNOWN if None in results else TRUE

    def _called(self, node: ast.Call, frame: _Frame) -> Value:
        name = _last(node.func)
        arguments = [self.value(argument, frame) for argument in node.args]
        first = arguments[0] if arguments else NOT_KNOWN
        if name == "isinstance" and len(node.args) == 2 and isinstance(first, Known):
            wanted = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            types = [_TYPES.get(_last(part)) for part in wanted]
            if isinstance(first.value, tuple):  # a list, which may be of another library's type
                return NOT_KNOWN
            return NOT_KNOWN if None in types else Known(isinstance(first.value, tuple(t for t in types if t)))
        if name == "parse_args":
            return Settings("")
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
        return self._returned(node, frame)

    def _each(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, frame: _Frame) -> Value:
        """What a comprehension over known items comes to."""
        one = node.generators[0]
        through = self.value(one.iter, frame)
        items = through.value if isinstance(through, Known) and isinstance(through.value, tuple) else None
        if items is None or len(node.generators) > 1 or not isinstance(one.target, ast.Name) or len(items) > _LONGEST:
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

    def _text(self, node: ast.expr, frame: _Frame) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(part, frame) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._text(node.value, frame)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._text(node.left, frame) + self._text(node.right, frame)
        value = self.value(node, frame)
        return str(value.value) if isinstance(value, Known) else "…"


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The numbers, texts and lists of such that a module gives to names, each once and changed nowhere in it."""
    stored = Counter(p.id for p in ast.walk(tree) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store))
    changed = {
        p.value.id
        for p in ast.walk(tree)
        if isinstance(p, ast.Attribute | ast.Subscript) and isinstance(p.value, ast.Name)
    }
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            parts = value.elts if isinstance(value, ast.List | ast.Tuple | ast.Set) else [value]
            if all(isinstance(part, ast.Constant) for part in parts) and stored[name] == 1 and name not in changed:
                found[name] = value
    return found


def _texts(node: ast.ClassDef) -> dict[str, str]:
    """The members of an enumeration that are texts as they stand; none where one has to be worked out."""
    found: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            names, value = [_last(target) for target in statement.targets], _quoted(statement.value)
            if len(names) != 1 or value is None:
                return {}
            found[names[0]] = value
    return found


def _gives(node: ast.stmt, name: str) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _yields(function: ast.FunctionDef) -> bool:
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in _parts(function.body))


def _set_on_the_way(classes: list[ast.ClassDef], method: str) -> Iterator[str]:
    """The fields that ``__post_init__``, a method that is called next, and the methods and properties that these lead
    to may set, and those that a list of the class names."""
    methods: dict[str, list[ast.stmt]] = {}
    for statement in (statement for node in classes for statement in node.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            methods.setdefault(statement.name, []).extend(statement.body)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.List | ast.Tuple):
            yield from filter(None, map(_quoted, statement.value.elts))
    reached, left = set[str](), ["__post_init__", method]
    while left:
        name = left.pop()
        if name in reached:
            continue
        reached.add(name)
        for part in _parts(methods.get(name, [])):
            if isinstance(part, ast.Attribute):
                left += [part.attr] if part.attr in methods else []
                if _own(part) is not None and isinstance(part.ctx, ast.Store):
                    yield part.attr
            elif isinstance(part, ast.Call) and _last(part.func) == "setattr":
                yield from filter(None, map(_quoted, part.args))


def _quoted(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _merged(results: list[dict[str, Value]]) -> dict[str, Value]:
    names = dict.fromkeys(name for result in results for name in result)
    return {
        name: results[0].get(name, NOT_KNOWN)
        if all(name in result and result[name] == results[0].get(name) for result in results)
        else NOT_KNOWN
        for name in names
    }


def _parts(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Everything in statements but the bodies of functions defined there."""
    for node in body:
        left: list[ast.AST] = [node]
        while left:
            part = left.pop()
            yield part
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                left += ast.iter_child_nodes(part)


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


def _validates(decorator: ast.expr) -> bool:
    """Whether a decorator makes a method one that pydantic runs once the fields are set."""
    return "model_validator" in ast.unparse(decorator) and "after" in ast.unparse(decorator)


def _own(node: ast.AST) -> str | None:
    """``name`` of ``self.name``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


def _last(node: ast.expr | None) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
