"""What a framework's own validation refuses of a launch's settings: the ``__post_init__`` of its argument class, or the
function that looks at its configuration, is followed statement by statement with the values that are given, without
running any of it.

A refusal is reported only where it is certain: every condition on the way to it could be worked out, nothing that comes
before can have changed what the condition reads, and no return that may be taken comes first."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any

from rldoctor.link.expressions import LONGEST, Frame, class_of
from rldoctor.link.fields import Fields, Section, plain_value
from rldoctor.link.problems import Refusal
from rldoctor.link.sections import beneath
from rldoctor.link.sources import Source, Sources
from rldoctor.link.syntax import (
    defined_as,
    last_name,
    own_name,
    parts_of,
    validated_fields,
    validates,
    validates_raw,
    yields,
)
from rldoctor.link.values import NOT_KNOWN, Known, Made, Settings, Value, truth
from rldoctor.records import dataclass

_MEMBERS_SAID = 3
_DEEPEST = 16  # methods that call methods
# What does not change the settings that it is given; the last two rows are of configurations in sections.
_PURE = frozenset(
    [
        *("isinstance", "getattr", "hasattr", "len", "str", "print", "type", "repr", "id", "super", "pprint", "vars"),
        *("info", "warning", "warning_once", "debug", "error", "warn", "log_hyperparams"),
        *("open_dict", "to_container", "select", "is_missing", "to_yaml", "is_config", "resolve"),
        *("get", "keys", "items", "values", "instantiate", "hierarchize", "asdict"),
    ]
)
# What changes a list, a set or a dictionary in place.
_CHANGING = frozenset(
    [
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"),
        *("add", "discard", "update", "setdefault", "popitem"),
    ]
)
_MOST_RESULTS = 100  # calls whose result is worked out for one launch, each by so many statements
_STATEMENTS_OF_RESULT = 100
_MOST_STATEMENTS = 20_000  # followed for one launch, functions that are called included


def refusal(
    sources: Sources,
    module: str,
    name: str,
    given: Mapping[str, Any],
    complete: bool = True,
    method: str = "",
    variables: Mapping[str, Value] | None = None,
    worded: frozenset[str] = frozenset(),
    asked: bool = False,
    typed: bool = False,
) -> Refusal | None:
    """What the class ``name`` of a module raises for the settings ``given`` by their fields, when an object of it is
    made and then its ``method`` is called, where one is named; None where nothing is certain. Where the launch may give
    more than was read (``complete`` is false), no field has its default. The class is found whatever its name's
    case. ``variables`` are those of the environment; None where nobody looked for them. ``worded`` are the fields that
    are given as words of a command; only where everything is ``asked`` for does a field count that is not given.
    ``typed`` are objects that OmegaConf makes."""
    source, found = class_of(sources, module, name)
    if source is None or found is None:
        return None
    follower = _Follower(sources, complete, variables)
    follower.worded, follower.asked, follower.typed = worded, asked, typed
    follower.take(source, found, given, method)

    def follow() -> None:
        follower.construct()
        if method:
            follower.method(method, 0)

    return _raised(follow)


def refusal_of_call(
    sources: Sources,
    module: str,
    name: str,
    settings: str,
    given: Mapping[str, Any],
    variables: Mapping[str, Value] | None = None,
) -> Refusal | None:
    """What a function or method of a module (``Trainer._validate``) raises, or, where ``name`` is empty, what runs when
    the module is the program. ``given`` holds the settings by their dotted names, ``settings`` is what the code calls
    them: a parameter (``config``), an attribute (``self.config``); what the arguments of a program are parsed to is
    them as well."""
    source = sources.whole(module)
    body: Sequence[ast.stmt] = source.tree.body if source is not None else ()
    if name:
        function = _defined(body, name)
        body = function.body if isinstance(function, ast.ClassDef | ast.FunctionDef) else ()
    else:
        body = next((n.body for n in body if isinstance(n, ast.If) and "__main__" in ast.unparse(n.test)), ())
    if source is None or not body:
        return None
    follower = _Follower(sources, complete=True, variables=variables)
    follower.attributes = {key: plain_value(value) for key, value in given.items()}
    owner, _, attribute = settings.rpartition(".")
    names: dict[str, Value] = {owner: Settings(owner), settings: NOT_KNOWN} if owner else {settings: Settings("")}
    if attribute and owner:
        follower.attributes[settings] = Settings("")
    above = name.rpartition(".")[0]
    if above:
        names.setdefault("self", Settings("self"))
    frame = Frame(source, above, name or "the program", names, 0)
    raised = _raised(lambda: follower.follow(list(body), frame))
    return _of_launch(raised) if raised is not None else None


def refusal_of_object(
    sources: Sources,
    arguments: tuple[str, str],
    given: Mapping[str, Any],
    complete: bool,
    module: str,
    name: str,
    as_: str,
) -> Refusal | None:
    """What a method of a module raises that gets an object of the argument class (its module and name) and calls it
    ``as_``: a trainer's ``__init__``. Nothing where the object itself is refused, or cannot be followed to its end."""
    source, found = class_of(sources, *arguments)
    asking = sources.whole(module)
    function = _defined(asking.tree.body, name) if asking is not None else None
    if source is None or found is None or asking is None or not isinstance(function, ast.FunctionDef):
        return None
    made = _Follower(sources, complete)
    made.take(source, found, given)
    try:
        made.construct()
    except (_RefusedError, _LeftError, RecursionError):
        return None
    follower = _Follower(sources, complete=True)
    follower.attributes = made.attributes
    frame = Frame(asking, "", name, {"self": Settings("self"), as_: Settings("")}, 0)
    raised = _raised(lambda: follower.follow(function.body, frame))
    return _of_launch(raised) if raised is not None else None


def _of_launch(raised: Refusal) -> Refusal:
    """A refusal that names the launch's settings alone, and none of what an object keeps."""
    return replace(raised, reads=tuple(one for one in raised.reads if one.partition(".")[0] != "self"))


def _defined(body: Sequence[ast.stmt], name: str) -> ast.stmt | None:
    """What a dotted name (``Trainer._validate``) stands for in a module."""
    found: ast.stmt | None = None
    for part in name.split("."):
        found = defined_as(body, part)
        body = found.body if isinstance(found, ast.ClassDef | ast.FunctionDef) else ()
    return found


def _raised(follow: Callable[[], None]) -> Refusal | None:
    try:
        follow()
    except _RefusedError as refused:
        return refused.refusal
    except (_LeftError, RecursionError):
        return None
    return None


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
class _Given:
    """The arguments of a call, each a value and the settings that it is made of; None stands for the object itself.
    ``more`` where some are handed on as a whole."""

    positional: Sequence[tuple[Value, frozenset[str]] | None]
    named: Mapping[str, tuple[Value, frozenset[str]]] = field(default_factory=dict)
    more: bool = False


class _Follower(Fields):
    """Follows code that reads settings; ``attributes`` are their values by dotted name. Where the code is an argument
    class, its object is the settings: ``self.steps`` reads ``steps``."""

    def __init__(self, sources: Sources, complete: bool, variables: Mapping[str, Value] | None = None) -> None:
        super().__init__(sources, complete, variables)
        self._left = _MOST_STATEMENTS
        self._results = _MOST_RESULTS
        self._asking: list[str] = []  # functions whose result is being worked out
        self._made_of: dict[str, frozenset[str]] = {}  # the settings that one was computed from

    def _inner(self, complete: bool) -> _Follower:
        """A follower for another object on the way, which may go half as far as is left."""
        inner = _Follower(self.sources, complete, self.variables)
        inner.provider, inner._left = self.provider, self._left // 2
        return inner

    def construct(self) -> None:
        """Follows what runs when an object of the class is made; what is given as JSON for a field is made before."""
        self._validate_raw()
        for section in self.sections.values():
            self._construct(section)
        self._validate(before=True)
        for misfit in self.misfits():
            raise _RefusedError(misfit)
        self._validate(before=False)
        self.method("__post_init__", 0)
        for _, node in self.order:
            for function in node.body:
                if isinstance(function, ast.FunctionDef) and any(map(validates, function.decorator_list)):
                    self.method(function.name, 0)

    def _construct(self, section: Section) -> None:
        """Makes the object of a section, whose fields are settings below its name then."""
        inner = self._inner(self.complete or section.text)
        inner.asked, inner.tagged = self.asked and not section.text, bool(section.tag)
        inner.typed = self.typed
        inner.worded = frozenset(beneath(dict.fromkeys(self.worded), section.name))
        inner.take(section.source, section.node, section.given)
        try:
            inner.construct()
        except _RefusedError as refused:
            found = refused.refusal
            raise _RefusedError(
                replace(found, reads=(section.name,)) if section.text else found.below(section.name)
            ) from None
        except (_LeftError, RecursionError):
            return
        if not section.text:
            start = f"{section.name}."
            self.attributes |= {start + name: _moved(value, start) for name, value in inner.attributes.items()}
            self.orders |= {start + name: order for name, order in inner.orders.items()}
            self.orders[section.name] = inner.order
            self.tags |= {start + name: tag for name, tag in inner.tags.items()}
            self.tags |= {section.name: section.tag} if section.tag else {}

    def _validate_raw(self) -> None:
        """Follows the methods to which pydantic hands all that is given, before it makes anything of it."""
        methods = [(s, c, f) for s, c in reversed(self.order) for f in c.body if isinstance(f, ast.FunctionDef)]
        methods = [one for one in methods if any(map(validates_raw, one[2].decorator_list))]
        if not methods:
            return
        made, volatile = self.attributes, self.volatile
        plain = {
            name: one if one is NOT_KNOWN or isinstance(one, Known) else plain_value(one)
            for name, one in self.given.items()
        }
        above = {name.rpartition(".")[0] for name in plain} - {""}
        absent = frozenset(name for name in made if name not in plain and name not in above)
        absent = absent if self.complete else frozenset()
        for source, node, function in methods:
            self.attributes, self.absent, self.raw = dict(plain), absent, True
            self.volatile = frozenset((*plain, *self.absent))
            frame = Frame(source, node.name, f"{node.name}.{function.name}", {}, 0)
            self._bind(function, frame, _Given([(NOT_KNOWN, frozenset()), (Settings(""), frozenset())]))
            try:
                self._enter(function, frame)
            finally:
                self.attributes, self.volatile, self.absent, self.raw = made, volatile, frozenset(), False

    def _validate(self, before: bool) -> None:
        """Follows the methods to which pydantic hands the value that is given for a field, before its type reads it or
        after; the field has what they return. A method takes the place of one of its name above."""
        methods = [(s, c, f) for s, c in reversed(self.order) for f in c.body if isinstance(f, ast.FunctionDef)]
        for source, node, function in methods:
            if (last := self._method(function.name)) is not None and last[2] is not function:
                continue
            fields = (name for name in validated_fields(function, before) if name in self.attributes)
            for name in (name for name in fields if name in self.given):
                given = self.given[name]
                raw = given if given is NOT_KNOWN or isinstance(given, Known) else plain_value(given)
                value = raw if before else self.attributes[name]
                arguments = _Given([(NOT_KNOWN, frozenset()), (value, frozenset({name}))])
                frame = Frame(source, node.name, f"{node.name}.{function.name}", {}, 0)
                self._bind(function, frame, arguments)
                self._enter(function, frame)
                self.attributes[name] = self._result((source, node.name, function), arguments, frame)

    # Calls

    def method(self, name: str, depth: int, after: str = "", certain: bool = True, given: _Given | None = None) -> None:
        """Follows a method of the object, with the values that it is given by their names; with ``after``, that of the
        classes behind the one of this name."""
        found = self._method(name, after)
        if found is not None:
            source, owner, function = found
            given = given or _Given([None])
            static = [last_name(mark) for mark in function.decorator_list] == ["staticmethod"]
            if depth > _DEEPEST or not (static or all(map(validates, function.decorator_list))):
                if not _is_of_class(function, given):
                    self._forget()
                return
            frame = Frame(source, owner, f"{owner}.{function.name}", {}, depth, certain=certain)
            self._bind(function, frame, replace(given, positional=given.positional[1:]) if static else given)
            self._enter(function, frame)
        elif not self.whole or name != "__post_init__":
            self._forget()

    def _method(
        self, name: str, after: str = "", order: Sequence[tuple[Source, ast.ClassDef]] = ()
    ) -> tuple[Source, str, ast.FunctionDef] | None:
        """Where a method or property of the object stands, the class that has it, and itself."""
        order = order or self.order
        names = [node.name for _, node in order]
        for source, node in order[names.index(after) + 1 if after in names else 0 :]:
            function = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
            if function is not None:
                return source, node.name, function
        return None

    def _property(
        self, name: str, order: Sequence[tuple[Source, ast.ClassDef]] = ()
    ) -> tuple[Source, str, ast.FunctionDef] | None:
        found = self._method(name, order=order) if order or self.order else None
        marks = [last_name(one) for one in found[2].decorator_list] if found is not None else []
        return found if marks == ["property"] else None

    def _bind(self, function: ast.FunctionDef, frame: Frame, given: _Given) -> None:
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
        told = given.positional[0] if given.positional else None
        if "self" in bound and self.order and (told is None or not isinstance(told[0], Settings)):
            frame.names["self"] = Settings("")

    def _given(self, call: ast.Call, frame: Frame, method: bool = False) -> _Given:
        """The arguments of a call, each with the settings that it is made of."""
        more = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
        positional = [(self.value(a, frame), self._reads(a, frame)) for a in call.args]
        named = {k.arg: (self.value(k.value, frame), self._reads(k.value, frame)) for k in call.keywords if k.arg}
        return _Given([None, *positional] if method else [*positional], named, more)

    def returned(self, call: ast.Call, frame: Frame) -> Value:
        """What a method of the object, or a function of the package, returns; not known where that is not certain."""
        function = call.func
        if isinstance(function, ast.Attribute):
            own = isinstance(function.value, ast.Name) and self.value(function.value, frame) == Settings("")
            found = self._method(function.attr) if own and self.order else None
            given = self._given(call, frame, method=True) if found is not None else _Given([])
            if not self.order and (beside := self._beside(function, frame)) is not None:
                return self._result(beside, self._given(call, frame, method=True), frame)
        else:
            helper = self._function(call, frame)
            found = (helper[0], "", helper[1]) if helper is not None else None
            given = self._given(call, frame) if found is not None else _Given([])
        return self._result(found, given, frame) if found is not None and not found[2].decorator_list else NOT_KNOWN

    def computed(self, setting: str, frame: Frame) -> Value | None:
        found, section = self._property_of(setting)
        itself = (Settings(section), frozenset[str]()) if section else None
        return self._result(found, _Given([itself]), frame) if found is not None else None

    def _property_of(self, setting: str) -> tuple[tuple[Source, str, ast.FunctionDef] | None, str]:
        """A property of the object or of a section, and the dotted name of what has it."""
        section, _, name = setting.rpartition(".")
        if section in self.orders:
            return self._property(name, self.orders[section]), section
        return self._property(setting), ""

    def _result(self, found: tuple[Source, str, ast.FunctionDef], given: _Given, frame: Frame) -> Value:
        source, owner, function = found
        self._results -= 1
        if frame.depth > _DEEPEST or self._results < 0 or function.name in self._asking:
            return NOT_KNOWN
        inner = Frame(source, owner, function.name, {}, frame.depth + 1)
        if function is frame.functions.get(function.name):
            inner.names, inner.functions = dict(frame.names), frame.functions
        self._bind(function, inner, given)
        if owner and not self.order:
            inner.names["self"] = frame.names.get("self", NOT_KNOWN)
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
        return NOT_KNOWN if inner.ends or not inner.certain or yields(function) else Known(None)

    def _enter(self, function: ast.FunctionDef, frame: Frame) -> None:
        with contextlib.suppress(_LeftError):
            self.follow(function.body, frame)
        if frame.ends:
            self.attributes = _merged([self.attributes, *frame.ends])

    def _forget(self, below: str = "") -> None:
        """What is not followed may change whatever it is given; an object of the class whatever some method changes."""
        if self.order and not below:
            inside = [name for name in self.attributes if name.partition(".")[0] in self.volatile]
            names = [*self.volatile, *inside]
        else:
            start = f"{below}." if below else ""
            names = [name for name in self.attributes if name.startswith(start)]
        self.attributes |= dict.fromkeys(names, NOT_KNOWN)

    # Statements

    def follow(self, body: list[ast.stmt], frame: Frame) -> None:
        for node in body:
            self._statement(node, frame)

    def _statement(self, node: ast.stmt, frame: Frame) -> None:
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
                self._refuse("AssertionError", node.msg, node, frame, (*frame.tests, ast.UnaryOp(ast.Not(), node.test)))
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
            for turn in items:
                frame.names |= zip(_names_of(node.target), [Known(one) for one in turn], strict=True)
                self.follow(node.body, frame)
        elif isinstance(node, ast.For | ast.While | ast.AsyncFor | ast.AsyncWith | ast.Match):
            cases = [case.body for case in node.cases] if isinstance(node, ast.Match) else [node.body]
            self._perhaps([*cases, []], frame)
            self._lose(node, frame)
        elif isinstance(node, ast.Expr):
            self._effects(node.value, frame)

    def _items(self, node: ast.For, frame: Frame) -> list[tuple[Any, ...]] | None:
        """What a loop goes through from first to last, where that is known: for each turn a value for every name."""
        through = self.value(node.iter, frame)
        known = isinstance(through, Known) and isinstance(through.value, tuple)
        leaves = any(isinstance(part, ast.Break | ast.Continue) for part in parts_of(node.body))
        if not known or leaves or node.orelse or not isinstance(through, Known) or len(through.value) > LONGEST:
            return None
        if isinstance(node.target, ast.Name):
            return [(item,) for item in through.value]
        names = _names_of(node.target)
        paired = names and all(isinstance(item, tuple) and len(item) == len(names) for item in through.value)
        return list(through.value) if paired else None

    def _if(self, node: ast.If, frame: Frame) -> None:
        self._effects(node.test, frame)
        holds = truth(self.value(node.test, frame))
        if holds is None:
            self._perhaps([node.body, node.orelse], frame)
            return
        before = frame.tests
        frame.tests = (*before, node.test if holds else ast.UnaryOp(ast.Not(), node.test))
        self.follow(node.body if holds else node.orelse, frame)
        frame.tests = before

    def _perhaps(self, branches: list[list[ast.stmt]], frame: Frame) -> None:
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
        returns = any(isinstance(part, ast.Return | ast.Break) for body in branches for part in parts_of(body))
        frame.certain = certain and not returns
        if returns:
            frame.ends.append(dict(self.attributes))

    def _lose(self, node: ast.stmt, frame: Frame) -> None:
        """What a loop assigns is not known behind it."""
        for part in parts_of([node]):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                frame.names[part.id] = NOT_KNOWN
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                ended = [name for name in self.attributes if name.endswith(f".{part.attr}")]
                # What a field's object has of that name is not the object's own.
                inner = bool(self.order) and own_name(part.value) in self.attributes
                self.attributes |= dict.fromkeys(ended if inner else (part.attr, *ended), NOT_KNOWN)
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                self._changes(self.value(part.value, frame))
                self._change_in_place(part.value, frame)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, frame: Frame) -> None:
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

    def _raise(self, node: ast.Raise, frame: Frame) -> None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        said = node.exc.args[0] if isinstance(node.exc, ast.Call) and node.exc.args else None
        self._refuse(last_name(raised), said, node, frame, frame.tests)

    def _refuse(
        self, type_: str, said: ast.expr | None, node: ast.expr | ast.stmt, frame: Frame, tests: tuple[ast.expr, ...]
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

    def _reads(self, node: ast.expr, frame: Frame) -> frozenset[str]:
        """The settings that an expression is made of."""
        found: set[str] = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                found |= frame.origins.get(part.id, frozenset())
            elif isinstance(part, ast.expr) and (name := self._setting(part, frame)) is not None:
                made, section = self._property_of(name) if name not in self.attributes else (None, "")
                own = filter(None, map(own_name, parts_of(made[2].body))) if made is not None else (name,)
                for one in (Settings(section).below(part) for part in own) if made is not None else (name,):
                    tag = f"{one}.{self.tags.get(one, '')}"
                    found |= {tag} if tag in self.attributes else set()
                    found |= {one, *self._made_of.get(one, ())} if one in self.attributes else set()
        return frozenset(found)

    def _change_in_place(self, node: ast.expr, frame: Frame) -> None:
        """A collection with one more entry is not the one that was known, under whichever name."""
        changed = self.value(node, frame)
        if not isinstance(changed, Known):
            return
        setting = self._setting(node, frame)
        if isinstance(node, ast.Name):
            frame.names[node.id] = NOT_KNOWN
            alike = [one for one in frame.origins.get(node.id, ()) if self.attributes.get(one) == changed]
        else:
            alike = [setting] if setting is not None else []
        self.attributes |= dict.fromkeys(alike, NOT_KNOWN)

    def _changes(self, given: Value) -> None:
        if isinstance(given, Settings):
            self._forget(given.name)

    def _effects(self, node: ast.expr | None, frame: Frame) -> None:
        """What the calls in an expression do to the settings."""
        for call, certain in self._calls(node, frame) if node is not None else ():
            if isinstance(call, ast.Subscript):
                if certain and frame.certain:
                    self._pick_by_name(call, frame)
                continue
            function = call.func
            if isinstance(function, ast.Attribute) and function.attr in _CHANGING:
                self._change_in_place(function.value, frame)
            passed = [self.value(a, frame) for a in (*call.args, *(k.value for k in call.keywords))]
            whole = self.order and Settings("") in passed
            if isinstance(function, ast.Attribute) and self.order:
                owner = function.value
                own = isinstance(owner, ast.Name) and owner.id == "self"
                if own or (self.value(owner, frame) == Settings("") and self._method(function.attr) is not None):
                    self._followed(function.attr, frame, "", self._given(call, frame, method=True))
                    continue
                if isinstance(owner, ast.Call) and last_name(owner.func) == "super":
                    self._followed(function.attr, frame, frame.owner, self._given(call, frame, method=True))
                    continue
                behind = self._behind(owner)
                if whole and behind is not None:
                    self._followed(function.attr, frame, behind, self._given(call, frame))
                    continue
            if not self.order and frame.depth <= _DEEPEST and (found := self._beside(function, frame)) is not None:
                inner = self._inside(found, call, frame)
                inner.certain = frame.certain
                self._enter(found[2], inner)
                continue
            made = self.value(function.value, frame) if isinstance(function, ast.Attribute) else None
            if certain and frame.certain and isinstance(function, ast.Attribute) and made == Known(None):
                self._refuse_none(function, frame)
            sure = certain and frame.certain and frame.depth <= _DEEPEST
            if sure and isinstance(made, Made) and self._ask(made, last_name(function), call, frame):
                continue
            if last_name(function) == "setattr" and len(call.args) == 3 and (named := self._attribute(call, frame)):
                self.attributes[named] = self.value(call.args[2], frame)
                continue
            if certain and frame.certain:
                self._pick(call, frame)
                self._make(call, frame)
            if sure and self._ask_class(call, frame):
                continue
            handed = not self.order or any(isinstance(value, Settings) for value in passed)
            if last_name(function) in _PURE or (handed and self._helped(call, frame)):
                continue
            owned = [self.value(function.value, frame)] if isinstance(function, ast.Attribute) else []
            for value in (*passed, *owned):
                self._changes(value)

    def _calls(
        self, node: ast.expr, frame: Frame, certain: bool = True
    ) -> Iterator[tuple[ast.Call | ast.Subscript, bool]]:
        """The calls and look-ups in an expression, and whether each is certain to be made."""
        if isinstance(node, ast.Call | ast.Subscript):
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

    def _refuse_none(self, function: ast.Attribute, frame: Frame) -> None:
        """Refuses a setting that is None where a method of its value is called."""
        setting = self._setting(function.value, frame)
        if setting is None or any(name.startswith(f"{setting}.") for name in self.attributes):
            return
        missing = ast.Compare(function.value, [ast.Is()], [ast.Constant(None)])
        said = f"'NoneType' object has no attribute '{function.attr}'"
        self._refuse("AttributeError", ast.Constant(said), function, frame, (*frame.tests, missing))

    def _pick(self, call: ast.Call, frame: Frame) -> None:
        """Refuses a text that is no member of the enumeration which it is looked up in."""
        members = self._members(call.func, frame)
        given = self.value(call.args[0], frame) if len(call.args) == 1 and members else NOT_KNOWN
        if isinstance(given, Known) and isinstance(given.value, str) and given.value not in members.values():
            said = f"{given.value!r} is not a valid {last_name(call.func)}: it is one of {', '.join(members.values())}"
            self._refuse("ValueError", ast.Constant(said), call, frame, (*frame.tests, call))

    def _pick_by_name(self, node: ast.Subscript, frame: Frame) -> None:
        """Refuses a text that is no name of a member of the enumeration which it is looked up in."""
        members = self._named_members(node.value, frame)
        given = self.value(node.slice, frame) if members else NOT_KNOWN
        if isinstance(given, Known) and isinstance(given.value, str) and given.value not in members:
            likely = get_close_matches(given.value, members) or sorted(members)[:_MEMBERS_SAID]
            said = f"{given.value!r} is no member of {last_name(node.value)}, which has {', '.join(likely)}"
            said += f" and {len(members) - len(likely)} more" if len(members) > len(likely) else ""
            self._refuse("ValueError", ast.Constant(said), node, frame, (*frame.tests, node))

    def _beside(self, function: ast.expr, frame: Frame) -> tuple[Source, str, ast.FunctionDef] | None:
        """Where the method stands that code of a class calls of its own object, and itself."""
        own = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and frame.owner
        if not own or not isinstance(function, ast.Attribute) or own_name(function) is None:
            return None
        left, reached = [(frame.source.name, frame.owner)], set[tuple[str, str]]()
        while left:
            name = left.pop(0)
            source, node = class_of(self.sources, *name)
            if source is None or node is None or name in reached:
                return None  # a class above that cannot be read may have it first
            reached.add(name)
            found = next(
                (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == function.attr), None
            )
            if found is not None:
                return (source, node.name, found) if not found.decorator_list else None
            bases = [last_name(base) for base in node.bases]
            left += [(source.name, base) for base in bases if base not in ("object", "ABC")]
        return None

    def _inside(self, found: tuple[Source, str, ast.FunctionDef], call: ast.Call, frame: Frame) -> Frame:
        """The frame of such a method, with what it is given."""
        source, owner, function = found
        inner = Frame(source, owner, f"{owner}.{function.name}", {}, frame.depth + 1)
        self._bind(function, inner, self._given(call, frame, method=True))
        inner.names["self"] = frame.names.get("self", NOT_KNOWN)
        return inner

    def _ask_class(self, call: ast.Call, frame: Frame) -> bool:
        """Follows a method of another class that is called with settings in the class's own name, or in that of the
        class which the code stands in (``cls``)."""
        function = call.func
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            return False
        named = frame.owner if function.value.id == "cls" else function.value.id
        source, node = class_of(self.sources, frame.source.name, named) if named else (None, None)
        method = defined_as(node.body, function.attr) if node is not None and node.name == named else None
        marks = {last_name(mark) for mark in method.decorator_list} if isinstance(method, ast.FunctionDef) else set()
        given = self._given(call, frame)
        if source is None or node is None or not isinstance(method, ast.FunctionDef):
            return False
        whole = Settings("") in [one[0] for one in (*given.positional, *given.named.values()) if one is not None]
        if not marks & {"classmethod", "staticmethod"} or (whole and not self.order):
            return False
        of_class = [(NOT_KNOWN, frozenset[str]())] if "classmethod" in marks else []
        inner = Frame(source, node.name, f"{node.name}.{method.name}", {}, frame.depth + 1, certain=frame.certain)
        self._bind(method, inner, replace(given, positional=[*of_class, *given.positional]))
        self._enter(method, inner)
        return True

    def _make(self, call: ast.Call, frame: Frame) -> None:
        """Follows what runs when an object of another class is made of settings by their names."""
        named = isinstance(call.func, ast.Name) and not call.args and all(k.arg for k in call.keywords)
        if not named or not call.keywords or frame.depth > _DEEPEST:
            return
        source, node = class_of(self.sources, frame.source.name, last_name(call.func))
        if source is None or node is None:
            return
        inner = self._inner(complete=True)
        inner.take(source, node, {k.arg: self.value(k.value, frame) for k in call.keywords if k.arg is not None})
        found = _raised(inner.construct)
        if found is not None:
            origins = {k.arg: sorted(self._reads(k.value, frame)) for k in call.keywords}
            reads = dict.fromkeys(one for name in found.reads for one in origins.get(name, ()))
            raise _RefusedError(replace(found, reads=tuple(reads)))

    def _ask(self, made: Made, method: str, call: ast.Call, frame: Frame) -> bool:
        """Follows a method of the object that is made of a section, and what made it."""
        target = made.below.get("_target_")
        module, _, name = str(target.value).rpartition(".") if isinstance(target, Known) else ("", "", "")
        source, node = class_of(self.sources, module, name) if module else (None, None)
        given = self._given(call, frame, method=True)
        passed = [one[0] for one in (*given.positional, *given.named.values()) if one is not None]
        if source is None or node is None or Settings("") in passed:
            return False
        inner = self._inner(complete=False)
        inner.take(source, node, made.below, method)
        fields = frozenset(inner.attributes)
        inner.attributes = {**self.attributes, **inner.attributes}  # what it is given may be other sections
        try:
            inner.construct()
            inner.method(method, frame.depth + 1, given=given)
        except _RefusedError as refused:
            reads = (f"{made.section}.{one}" if one in fields else one for one in refused.refusal.reads)
            raise _RefusedError(replace(refused.refusal, reads=tuple(reads))) from None
        self.attributes |= {key: inner.attributes[key] for key in self.attributes if key not in fields}
        return True

    def _helped(self, call: ast.Call, frame: Frame) -> bool:
        """Follows a function that was defined on the way, or one of the package itself that gets settings."""
        if not isinstance(call.func, ast.Name) or frame.depth > _DEEPEST:
            return False
        found = self._function(call, frame)
        if found is None:
            return False
        source, function = found
        inner = Frame(source, "", function.name, {}, frame.depth + 1, certain=frame.certain)
        if function is frame.functions.get(function.name):
            inner.names, inner.functions = dict(frame.names), frame.functions
        self._bind(function, inner, self._given(call, frame))
        self._enter(function, inner)
        return True

    def _function(self, call: ast.Call, frame: Frame) -> tuple[Source, ast.FunctionDef] | None:
        """A function that was defined on the way, or one of the package itself, with the source that it stands in."""
        name = last_name(call.func) if isinstance(call.func, ast.Name) else ""
        if name in frame.functions:
            return frame.source, frame.functions[name]
        definition = self.provider.definition(frame.source.name, name) if name else None
        if definition is None or not isinstance(definition.node, ast.FunctionDef) or definition.node.decorator_list:
            return None
        above = self.sources.whole(definition.source.name)
        named = defined_as(above.tree.body, definition.node.name) if above is not None else None
        return (above, named) if above is not None and isinstance(named, ast.FunctionDef) else None

    def _followed(self, name: str, frame: Frame, after: str, given: _Given) -> None:
        known = after if after in [node.name for _, node in self.order] else ""
        self.method(name, frame.depth + 1, known, frame.certain, given)

    def _behind(self, owner: ast.expr) -> str | None:
        """For ``Base.method(self)`` the class before ``Base`` in the order."""
        names = [node.name for _, node in self.order]
        name = last_name(owner)
        return names[names.index(name) - 1] if name in names[1:] else None


def _moved(value: Value, start: str) -> Value:
    """A section by its name where all stand below another."""
    return Settings(start + value.name) if isinstance(value, Settings) else value


def _names_of(target: ast.expr) -> list[str]:
    """The names that a loop gives values, where they are plain; none of any other target."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return (
        [part.id for part in parts if isinstance(part, ast.Name)] if all(isinstance(p, ast.Name) for p in parts) else []
    )


def _is_of_class(function: ast.FunctionDef, given: _Given | None) -> bool:
    """Whether a method gets the class or nothing in the object's stead, and no settings in another way."""
    passed = [one[0] for one in (*given.positional, *given.named.values()) if one is not None] if given else []
    marks = {last_name(mark) for mark in function.decorator_list}
    handed_on = (given is not None and given.more) or any(isinstance(one, Settings) for one in passed)
    return marks in ({"classmethod"}, {"staticmethod"}) and not handed_on


def _merged(results: list[dict[str, Value]]) -> dict[str, Value]:
    merged, *others = results
    for other in others:
        alike = {k: v if (one := other.get(k)) is v or one == v else NOT_KNOWN for k, v in merged.items()}
        merged = alike | dict.fromkeys(other.keys() - merged.keys(), NOT_KNOWN)
    return merged
