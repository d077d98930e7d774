"""Options declared by ``add_argument`` calls, through the functions that a parser is handed to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rldoctor.records import dataclass
from rldoctor.tables.options.fields import Classes
from rldoctor.tables.options.model import MISSING, Computed, Option, Options
from rldoctor.tables.options.source import Definition, Module, dotted
from rldoctor.tables.options.values import UnevaluableError

_DEEPEST = 5  # functions that hand the parser on
_TYPES = {"int": "int", "float": "float", "str": "str", "bool": "bool", "nullable_str": "str"}


@dataclass(frozen=True)
class _Scope:
    """Where a statement is read: its module, the class that ``cls`` stands for, and what local names hold."""

    module: Module
    owner: Definition | None
    environment: dict[str, Any]
    depth: int


class Arguments:
    """Collects the options that a parser has after the given code ran; loops over literals are unrolled."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.sources = classes.sources

    def options(self, module: Module, function: str | None) -> Options:
        """The options that ``function`` adds, or without one those of the module's ``__main__`` block."""
        found: Options = {}
        if function is None:
            for statement in module.tree.body:
                if isinstance(statement, ast.If):
                    self._run(statement.body, _Scope(module, None, {}, 0), found)
            return found
        target = self.sources.resolve(module, function)
        if isinstance(target, Definition):
            self._enter(target, self._owner(module, function), 0, found)
        return found

    def _owner(self, module: Module, function: str) -> Definition | None:
        head = function.rpartition(".")[0]
        owner = self.sources.resolve(module, head) if head else None
        return owner if isinstance(owner, Definition) and isinstance(owner.node, ast.ClassDef) else None

    def _enter(self, target: Definition, owner: Definition | None, depth: int, found: Options) -> None:
        if isinstance(target.node, ast.FunctionDef) and depth <= _DEEPEST:
            whole = target.module.whole(target.node)
            self._run(whole.body, _Scope(target.module, owner, {}, depth), found)

    def _run(self, body: list[ast.stmt], scope: _Scope, found: Options) -> None:
        for statement in body:
            if isinstance(statement, ast.For):
                self._loop(statement, scope, found)
            elif isinstance(statement, ast.If | ast.With | ast.Try):
                for part in ("body", "orelse", "finalbody"):
                    self._run(getattr(statement, part, []), scope, found)
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                name = dotted(statement.targets[0])
                if name:
                    scope.environment[name] = self._keywords_of(statement.value, scope)
                self._calls(statement, scope, found)
            elif isinstance(statement, ast.FunctionDef):
                scope.environment[statement.name] = Definition(scope.module, statement)
            elif isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name):
                self._local(statement.value.id, scope, found)  # the function that it makes and hands on
            elif not isinstance(statement, ast.ClassDef):
                self._calls(statement, scope, found)

    def _local(self, name: str, scope: _Scope, found: Options) -> bool:
        """Enters a function that the running one defines itself, if that is one."""
        target = scope.environment.get(name)
        if not isinstance(target, Definition):
            return False
        if isinstance(target.node, ast.FunctionDef) and scope.depth < _DEEPEST:
            environment = dict(scope.environment)
            self._run(target.node.body, replace(scope, environment=environment, depth=scope.depth + 1), found)
        return True

    def _loop(self, statement: ast.For, scope: _Scope, found: Options) -> None:
        """Unrolls a loop over literals; ``for key, value in kwargs.items()`` adds every field behind ``kwargs``."""
        name = (dotted(statement.iter.func) or "") if isinstance(statement.iter, ast.Call) else ""
        if name.endswith(".items"):
            held = scope.environment.get(name.removesuffix(".items"))
            if isinstance(held, dict):
                for option in held.values():
                    if isinstance(option, Option):
                        found[option.name] = option
                        found.update((negated.name, negated) for negated in _negated(option))
                return
        try:
            values = self.classes.evaluator.strict(scope.module, statement.iter, scope.environment)
        except UnevaluableError:
            return
        if isinstance(statement.target, ast.Name) and isinstance(values, list):
            for value in values:
                environment = {**scope.environment, statement.target.id: value}
                self._run(statement.body, replace(scope, environment=environment), found)

    def _calls(self, statement: ast.stmt, scope: _Scope, found: Options) -> None:
        for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                for option in self._added(call, scope):
                    # A parser refuses a name twice; reached again here it is another branch's.
                    found.setdefault(option.name, option)
            elif any(isinstance(a, ast.Name) and "parser" in a.id for a in call.args):
                self._follow(call, scope, found)

    def _follow(self, call: ast.Call, scope: _Scope, found: Options) -> None:
        """Enters a function or class method of the tree to which a parser is handed."""
        name = dotted(call.func) or ""
        if self._local(name, scope, found):
            return
        head, _, method = name.rpartition(".")
        if head in ("cls", "super") and scope.owner is not None:
            owner: Definition | None = scope.owner
        else:
            owner = self._owner(scope.module, name)
        if owner is None:
            target = self.sources.resolve(scope.module, name) if name else None
            if isinstance(target, Definition):
                self._enter(target, None, scope.depth + 1, found)
            return
        for ancestor in self.classes.linearized(owner):
            assert isinstance(ancestor.node, ast.ClassDef)
            for statement in ancestor.node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == method:
                    self._enter(Definition(ancestor.module, statement), owner, scope.depth + 1, found)
                    return

    def _keywords_of(self, node: ast.expr, scope: _Scope) -> Any:
        """What a local name holds: a literal, or the fields behind vLLM's ``get_kwargs(Class)``."""
        if isinstance(node, ast.Call):
            name = dotted(node.func) or ""
            if name.endswith("get_kwargs") and len(node.args) == 1:
                argument = dotted(node.args[0]) or ""
                if argument == "cls" and scope.owner is not None:
                    return self.classes.options(scope.owner)
                owner = self.sources.resolve(scope.module, argument)
                if isinstance(owner, Definition) and isinstance(owner.node, ast.ClassDef):
                    return self.classes.options(owner)
                return None
            if name.endswith("_customize_cli_kwargs") and node.args:
                return scope.environment.get(dotted(node.args[0]) or "")
        if isinstance(node, ast.Subscript):
            held = self._keywords_of(node.value, scope)
            if isinstance(held, dict) and isinstance(node.slice, ast.Constant):
                return held.get(str(node.slice.value))
        if isinstance(node, ast.Name) and node.id in scope.environment:
            return scope.environment[node.id]
        try:
            return self.classes.evaluator.strict(scope.module, node, scope.environment)
        except UnevaluableError:
            return None

    def _added(self, call: ast.Call, scope: _Scope) -> Iterator[Option]:
        """The option that one ``add_argument`` call adds, and its other spellings."""
        evaluate = self.classes.evaluator
        flags = [evaluate.value(scope.module, argument, scope.environment) for argument in call.args]
        spelled = [flag for flag in flags if isinstance(flag, str) and flag.startswith("-")]
        long = [flag for flag in spelled if flag.startswith("--")]
        if not long:
            return
        given: dict[str, ast.expr] = {}
        template = Option(name="")
        for keyword in call.keywords:
            if keyword.arg is not None:
                given[keyword.arg] = keyword.value
            else:
                template = self._splatted(keyword.value, scope, given) or template
        first = plain_name(long[0])
        option = self._option(first, template, given, scope)
        yield option
        for flag in spelled:
            if flag != long[0]:
                name = plain_name(flag) if flag.startswith("--") else flag
                yield Option(name, option.default, option.type, option.choices, alias=first)
        action = given.get("action")
        if action is not None and (dotted(action) or "").endswith("BooleanOptionalAction"):
            yield from _negated(option)
        elif template.name and action is None and "type" not in given:
            yield from _negated(replace(template, name=first))

    def _splatted(self, node: ast.expr, scope: _Scope, given: dict[str, ast.expr]) -> Option | None:
        """The option behind ``**kwargs["name"]``, plain or inside a dictionary that overrides part of it."""
        if isinstance(node, ast.Dict):
            template = None
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    template = self._splatted(value, scope, given)
                elif isinstance(key, ast.Constant):
                    given[str(key.value)] = value
            return template
        held = self._keywords_of(node, scope)
        return held if isinstance(held, Option) else None

    def _option(self, name: str, template: Option, given: dict[str, ast.expr], scope: _Scope) -> Option:
        value = self.classes.evaluator.value
        action = value(scope.module, given["action"]) if "action" in given else None
        default = template.default if template.name else None
        if "default" in given:
            default = value(scope.module, given["default"], scope.environment)
        elif action in ("store_true", "store_false"):
            default = action == "store_false"
        kind = template.type
        if (isinstance(action, str) and action.startswith("store_")) or "Boolean" in str(action):
            kind = "bool"
        elif "nargs" in given:
            kind = "list"
        elif "type" in given:
            kind = _TYPES.get((dotted(given["type"]) or "").rpartition(".")[2], template.type or "any")
        choices = template.choices
        if "choices" in given:
            listed = value(scope.module, given["choices"], scope.environment)
            choices = tuple(listed) if isinstance(listed, list) else None
        counted = value(scope.module, given["nargs"]) if "nargs" in given else None
        required = "required" in given and value(scope.module, given["required"]) is True
        return Option(
            name,
            default=MISSING if required or _suppressed(default) else default,
            type=kind or "str",
            choices=choices,
            required=required,
            count=counted if isinstance(counted, int) else None,
            deprecated=template.deprecated or self._is_deprecated(given, action, scope),
        )

    def _is_deprecated(self, given: dict[str, ast.expr], action: Any, scope: _Scope) -> bool:
        text = self.classes.evaluator.value(scope.module, given["help"]) if "help" in given else ""
        marked = "deprecated" in given and self.classes.evaluator.value(scope.module, given["deprecated"]) is True
        return marked or "Deprecat" in str(action) or "deprecated" in str(text)[:20].lower()


def plain_name(flag: str) -> str:
    """``--max-model-len`` as the table names it: without dashes in front, underscores inside."""
    return flag.lstrip("-").replace("-", "_")


def _negated(option: Option) -> Iterator[Option]:
    """The ``--no-name`` that comes with a truth value."""
    if option.type.rstrip("?") == "bool":
        yield Option(f"no_{option.name}", MISSING, "bool", alias=option.name)


def _suppressed(default: Any) -> bool:
    return isinstance(default, Computed) and default.expression.endswith("SUPPRESS")
