"""The messages with which a module can end, from its source: what it raises, asserts and refuses, and when."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from rldoctor.io import untrusted
from rldoctor.link.syntax import last_name
from rldoctor.records import dataclass
from rldoctor.refresh.spelled import of_class, of_module, spelled
from rldoctor.refresh.way import ASIDE, Methods, Way, entered, methods_of, ways
from rldoctor.tables.messages import CHANGED, CUT, HOLE, MOST_CONDITIONS, UNCALLED

_ENDS = {"SystemExit", "exit"}
_PRINTS = re.compile(r"\b(?:raise|assert|exit|SystemExit|error|super)\b")  # a third of all modules has none
_PERCENT = re.compile(r"%(?:\((?P<name>\w+)\))?[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[hlL]?(?P<kind>[diouxXeEfFgGcrsa%])")
_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}:!]*)(?:![rsa])?(?::[^{}]*)?\}")
_LONGEST_HOLE = 60  # characters of an expression in a hole; longer ones are not named
_LONGEST_CONDITION = 240
_DEEPEST = 6  # texts within texts, names of names


@dataclass(frozen=True)
class Message:
    """One place that can print something. ``function`` is qualified within the module (``SchedulerConfig.verify``; for
    an exception's own text it is its class), ``type`` the exception's.
    ``template`` alternates literal text and the expressions of its holes, divided by ``HOLE``. ``conditions`` are those
    under which it is reached, the innermost last, as source; an assertion's own stands as ``not (...)``, a handler
    as ``except ...``, and texts that one value was compared with in turn as ``value not in (...)``. ``CUT`` stands
    before them where more has to hold, else ``UNCALLED`` where they are of a method that may never be called, and
    ``CHANGED`` where what they read may have been changed before."""

    function: str
    type: str
    template: str
    conditions: tuple[str, ...] = ()


def messages(text: str) -> Iterator[Message]:
    """Every message of a module's source. Raises ``SyntaxError`` where it has some and cannot be read."""
    if not _PRINTS.search(text):
        return
    tree = untrusted.python(text)
    try:
        top = _Scope("", {}, ways=lambda: ways(tree.body, Way(), {}), module=tree, constants=of_module(tree))
        yield from top.of(tree.body, ())
    except RecursionError as error:
        raise SyntaxError("nested too deeply") from error


class _Scope:
    """The statements of one function, class or module. ``texts`` are the names that were last assigned a text, ``ways``
    tells what comes before each of a function's or module's statements."""

    def __init__(
        self,
        name: str,
        texts: dict[str, ast.expr],
        owner: ast.ClassDef | None = None,
        ways: Callable[[], Mapping[ast.stmt, Way]] | None = None,
        *,
        module: ast.Module,
        constants: Mapping[str, ast.expr],
    ) -> None:
        self.name = name
        self.module = module
        self.constants = constants
        self.texts = dict(texts)
        self.owner = owner
        self._ways = ways
        self._known_ways: Mapping[ast.stmt, Way] | None = None
        self._at: ast.stmt | None = None
        self._compared: dict[str, tuple[str, tuple[str, ...]]] = {}

    def of(self, body: list[ast.stmt], conditions: tuple[str, ...]) -> Iterator[Message]:
        for node in body:
            self._at = node
            yield from self._statement(node, conditions)

    def _way(self) -> Way:
        """What comes before the statement at hand; worked out where one prints something, as few do."""
        if self._known_ways is None:
            self._known_ways = self._ways() if self._ways is not None else {}
        return self._known_ways.get(self._at, ASIDE) if self._at is not None else ASIDE

    @cached_property
    def _class(self) -> tuple[Methods, Mapping[str, Way]]:
        """What the methods of the class set, and which run for every object."""
        methods = methods_of(self.owner) if self.owner is not None else {}
        return methods, entered(self.owner, methods) if self.owner is not None else {}

    def _statement(self, node: ast.stmt, conditions: tuple[str, ...]) -> Iterator[Message]:
        if isinstance(node, ast.ClassDef):
            known = {**self.constants, **of_class(node, self.module)}
            within = _Scope(self._below(node.name), self.texts, node, module=self.module, constants=known)
            yield from within.of(node.body, ())
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._function(node)
        elif isinstance(node, ast.If):
            test = self._spelled(node.test)
            yield from self.of(node.body, (*conditions, _said(test)))
            yield from self.of(node.orelse, self._failed(test, conditions))
        elif isinstance(node, ast.Try | ast.TryStar):
            yield from self.of(node.body, conditions)
            for handler in node.handlers:
                caught = f"except {_said(handler.type)}" if handler.type is not None else "except"
                yield from self.of(handler.body, (*conditions, caught))
            yield from self.of([*node.orelse, *node.finalbody], conditions)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                matched = f"{_said(node.subject)} is {_said(case.pattern)}"
                yield from self.of(case.body, (*conditions, matched))
        elif isinstance(node, ast.While):
            yield from self.of(node.body, (*conditions, _said(self._spelled(node.test))))
            yield from self.of(node.orelse, conditions)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
            yield from self.of([*node.body, *getattr(node, "orelse", ())], conditions)
        else:
            yield from self._simple(node, conditions)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Message]:
        """The messages of a function: one of a module is asked by its name, a method where it runs for every object,
        one within another nobody knows when."""

        def before() -> Mapping[ast.stmt, Way]:
            if self._ways is not None and self.name:
                return {}
            methods, entries = self._class
            if self.owner is None or node.name in entries:
                return ways(node.body, entries.get(node.name, Way()), methods)
            return {at: replace(way, called=False) for at, way in ways(node.body, Way(), methods).items()}

        name, constants = self._below(node.name), self.constants
        within = _Scope(name, self.texts, self.owner, before, module=self.module, constants=constants)
        yield from within.of(node.body, ())

    def _spelled(self, test: ast.expr) -> ast.expr:
        """A test with the constants that it names, unless it would be too long to be kept."""
        found = spelled(test, self.constants)
        return found if found is test or len(_said(found)) <= _LONGEST_CONDITION else test

    def _failed(self, test: ast.expr, conditions: tuple[str, ...]) -> tuple[str, ...]:
        """The conditions where a test has failed; of a chain that compares one value with texts they are one."""
        subject, texts = _texts(test)
        condition = f"not ({_said(test)})"
        if subject and conditions and self._compared.get(conditions[-1], ("", ()))[0] == subject:
            texts = tuple(dict.fromkeys((*self._compared[conditions[-1]][1], *texts)))
            conditions, condition = conditions[:-1], f"{subject} not in {texts!r}"
        if subject:
            self._compared[condition] = (subject, texts)
        return (*conditions, condition)

    def _simple(self, node: ast.stmt, conditions: tuple[str, ...]) -> Iterator[Message]:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._remember(node)
        elif isinstance(node, ast.Raise):
            yield from self._raised(node, conditions)
        elif isinstance(node, ast.Assert):
            text = self._template(node.msg) if node.msg is not None else ""
            # One without words is told by its line, as it stands.
            test = self._spelled(node.test) if text else node.test
            yield self._message("AssertionError", text, (*conditions, f"not ({_said(test)})"))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from self._called(node.value, conditions)

    def _raised(self, node: ast.Raise, conditions: tuple[str, ...]) -> Iterator[Message]:
        raised = node.exc
        if isinstance(raised, ast.Name) and raised.id in self.texts:
            raised = self.texts[raised.id]
        if isinstance(raised, ast.Call):
            type_ = last_name(raised.func)
            if type_[:1].isupper():
                yield self._message(type_, self._arguments(raised.args), conditions)
        elif isinstance(raised, ast.Name | ast.Attribute) and last_name(raised)[:1].isupper():
            yield self._message(last_name(raised), "", conditions)

    def _called(self, call: ast.Call, conditions: tuple[str, ...]) -> Iterator[Message]:
        name = last_name(call.func)
        owner = _said(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if owner == "super()" and name == "__init__" and self.owner is not None and _is_exception(self.owner):
            text = self._arguments(call.args)
            if text.strip(HOLE):
                yield Message(self.name.rpartition(".")[0], self.owner.name, _one_line(text), ())
        elif (name in _ENDS and owner in ("", "sys")) or (name == "error" and owner.endswith("parser")):
            text = self._template(call.args[0]) if call.args else ""
            if len(text.partition(HOLE)[0]) > 1:
                yield self._message("SystemExit", text, conditions)

    def _message(self, type_: str, text: str, conditions: tuple[str, ...]) -> Message:
        kept = tuple(c for c in conditions if len(c) <= _LONGEST_CONDITION)[-MOST_CONDITIONS:]
        read = _read(kept)
        way = self._way() if conditions else Way()
        cut = kept != conditions or read is None or not way.sure
        marks = ((CUT, cut), (UNCALLED, not way.called), (CHANGED, way.changes(read or set())))
        return Message(self.name, type_, _one_line(text), (*[mark for mark, stands in marks if stands][:1], *kept))

    def _remember(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if not isinstance(target, ast.Name) or node.value is None:
                continue
            if isinstance(node, ast.AugAssign):
                before = self.texts.get(target.id)
                if before is not None and isinstance(node.op, ast.Add):
                    self.texts[target.id] = ast.BinOp(before, ast.Add(), node.value)
            elif _is_text(node.value):
                self.texts[target.id] = node.value
            else:
                self.texts.pop(target.id, None)

    # Templates

    def _arguments(self, arguments: list[ast.expr]) -> str:
        """What an exception says of itself: its one argument, or all of them as a tuple."""
        if len(arguments) < 2:
            return self._template(arguments[0]) if arguments else ""
        parts = [f"'{self._template(a)}'" if _is_text(a) else _hole(a) for a in arguments]
        return f"({', '.join(parts)})"

    def _template(self, node: ast.expr, depth: int = 0) -> str:
        if depth > _DEEPEST:
            return _hole(node)
        deeper = depth + 1
        if isinstance(node, ast.Constant):
            return node.value.replace(HOLE, "") if isinstance(node.value, str) else str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self._template(part, deeper) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            text = self._template(node.value, deeper) if _is_text(node.value) else _hole(node.value)
            return text if node.conversion != ord("r") or text.startswith(HOLE) else _hole(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._template(node.left, deeper) + self._template(node.right, deeper)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
            given = list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
            return _percent(self._template(node.left, deeper), given)
        if isinstance(node, ast.Call):
            return self._made(node, deeper)
        if isinstance(node, ast.Name) and node.id in self.texts and _is_text(self.texts[node.id]):
            return self._template(self.texts[node.id], deeper)
        return _hole(node)

    def _made(self, node: ast.Call, depth: int) -> str:
        """The text that a call of a method of a text makes."""
        if not isinstance(node.func, ast.Attribute):
            if last_name(node.func) in ("dedent", "str", "fill") and node.args and _is_text(node.args[0]):
                return self._template(node.args[0], depth)
            return _hole(node)
        if node.func.attr == "format" and (_is_text(node.func.value) or _named(node.func.value, self.texts)):
            return _braces(self._template(node.func.value, depth), node)
        if node.func.attr in ("strip", "lstrip", "rstrip", "dedent") and not isinstance(node.func.value, ast.Name):
            return self._template(node.func.value, depth)
        if node.func.attr == "dedent" and node.args:
            return self._template(node.args[0], depth)
        return _hole(node)

    def _below(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name


def _read(conditions: tuple[str, ...]) -> set[str] | None:
    """The last names of what conditions read; None where one is of a handler or a pattern."""
    try:
        parts = [part for one in conditions for part in ast.walk(ast.parse(one, mode="eval"))]
    except SyntaxError:
        return None
    texts = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return texts | {last_name(part) for part in parts if isinstance(part, ast.Attribute | ast.Name)}


def _texts(test: ast.expr) -> tuple[str, tuple[str, ...]]:
    """The value that a test compares with texts, and these; empty where it does anything else."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.In):
        return "", ()
    other = test.comparators[0]
    parts = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
    if isinstance(test.ops[0], ast.Eq) is not (parts == [other]):
        return "", ()
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return (_said(test.left), tuple(texts)) if len(texts) == len(parts) else ("", ())


def _percent(text: str, given: list[ast.expr]) -> str:
    """A text with ``%`` placeholders as a template. What its own holes hold stays."""
    pairs = (pair for d in given if isinstance(d, ast.Dict) for pair in zip(d.keys, d.values, strict=True))
    names = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
    left = iter(given)

    def filled(match: re.Match[str]) -> str:
        if match["kind"] == "%":
            return "%"
        value = names.get(match["name"]) if match["name"] else next(left, None)
        return _hole(value) if value is not None else f"{HOLE}{match['name'] or ''}{HOLE}"

    parts = text.split(HOLE)
    return HOLE.join(_PERCENT.sub(filled, part) if not position % 2 else part for position, part in enumerate(parts))


def _braces(text: str, call: ast.Call) -> str:
    """A text with ``{}`` placeholders as a template."""
    names = {keyword.arg: keyword.value for keyword in call.keywords}
    left = iter(call.args)

    def filled(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        name = match["name"].strip()
        if not name:
            value = next(left, None)
        elif name.isdecimal():
            value = call.args[int(name)] if int(name) < len(call.args) else None
        else:
            value = names.get(name)
        return _hole(value) if value is not None else f"{HOLE}{name}{HOLE}"

    parts = text.split(HOLE)
    return HOLE.join(_BRACES.sub(filled, part) if not position % 2 else part for position, part in enumerate(parts))


def _one_line(text: str) -> str:
    """A template with every stretch of white space as one blank."""
    return re.sub(r"\s+", " ", text).strip()


def _hole(node: ast.AST) -> str:
    text = _said(node).replace("\n", " ")
    return f"{HOLE}{text if len(text) <= _LONGEST_HOLE else ''}{HOLE}"


def _said(node: ast.AST | None) -> str:
    return ast.unparse(node).replace(HOLE, "") if node is not None else ""


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is written as a text, or as an exception that may be raised later."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod) and (_is_text(node.left) or _is_text(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("format", "strip", "dedent") and (
            _is_text(node.func.value) or any(_is_text(a) for a in node.args[:1])
        )
    return isinstance(node, ast.Call) and last_name(node.func).endswith(("Error", "Exception"))


def _named(node: ast.expr, texts: dict[str, ast.expr]) -> bool:
    return isinstance(node, ast.Name) and node.id in texts


def _is_exception(node: ast.ClassDef) -> bool:
    return any(last_name(base).endswith(("Error", "Exception", "Warning")) for base in node.bases)
