"""What the names of a Python file may stand for: what is assigned to them, the options of its parsers, the fields of
its classes, and the parameters of its functions by the calls that the file makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import field

from rldoctor.records import dataclass

MAX_STEPS = 20

# What makes an object of the command line: the fields are those of the file's parsers and of its dataclasses.
_PARSES = frozenset(
    {"parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_args_and_config", "tyro.cli"}
)
# Methods that change a dictionary or a list.
_CHANGES = frozenset({"update", "pop", "setdefault", "append", "extend", "insert", "remove", "clear"})
# What calls a function with the command line as its parameters, and what declares one of these.
_ENTRIES = frozenset({"typer.run", "fire.Fire", "Fire", "tyro.cli"})
_ENTRY_DECORATORS = ("command", "callback")
_DECLARES = frozenset({"option", "Option", "argument", "Argument"})


@dataclass
class Option:
    """A value that has a name: of the command line where ``parsed``, else of a class. ``default`` is None where there
    is none, for the reason ``why``."""

    name: str
    default: ast.expr | None
    parsed: bool = True
    why: str = field(default="")

    def __post_init__(self) -> None:
        self.why = self.why or f"{self.name} is an argument of the script"


def dotted(node: ast.expr) -> str:
    """The dotted name of an expression (``os.environ``), empty where it is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(reversed(parts)) if parts else ""
    return ".".join([node.id, *reversed(parts)])


class Holders:
    """The names of one file: ``assigned`` has every value of a name (None: one that no expression gives), ``items``
    what is put into a dictionary of that name, ``attributes`` what is put under that attribute of any object,
    ``updated`` what changes in another way. ``guards`` has the conditions under which such a statement runs, each with
    the truth that it asks for; None is a loop, or what else may not run."""

    def __init__(self, tree: ast.Module) -> None:
        self.assigned: dict[str, list[ast.expr | Option | None]] = {}
        self.items: dict[str, dict[str, list[ast.expr]]] = {}
        self.attributes: dict[str, list[ast.expr]] = {}
        self.updated: set[str] = set()
        self.guards: dict[ast.AST, list[tuple[ast.expr | None, bool]]] = {}
        self._options: dict[str, list[Option]] = {}
        self._classes: dict[str, dict[str, ast.expr | None]] = {}
        self._annotated: set[str] = set()
        self._functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self._calls: dict[str, list[ast.Call]] = {}
        self._entries: set[str] = set()
        self._steps = 0
        called: set[int] = set()
        loose: set[str] = set()
        nodes = list(ast.walk(tree))
        self._guard(tree.body, [])
        for node in nodes:
            self._learn(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called.add(id(node.func))
        for node in nodes:
            if isinstance(node, ast.Call) and dotted(node.func) in _ENTRIES:
                for argument in node.args:
                    self._entries.add(dotted(argument))
                    called.add(id(argument))
        loose.update(node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called)
        methods = {id(part) for node in nodes if isinstance(node, ast.ClassDef) for part in node.body}
        for functions in self._functions.values():
            for function in functions:
                known = len(functions) == 1 and id(function) not in methods and function.name not in loose
                self._parameters(function, known)
        for name in sorted(self.updated & self.assigned.keys()):  # another name of the same thing, a parameter too
            self.updated.update(value.id for value in self.assigned[name] if isinstance(value, ast.Name))

    def _guard(self, body: Sequence[ast.AST], under: list[tuple[ast.expr | None, bool]]) -> None:
        for node in body:
            if isinstance(node, ast.Assign) and under:
                self.guards[node.value] = under
            if isinstance(node, ast.If):
                self._guard(node.body, [*under, (node.test, True)])
                self._guard(node.orelse, [*under, (node.test, False)])
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.With | ast.AsyncWith):
                self._guard(node.body, under)
            elif isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.Try | ast.ExceptHandler | ast.Match):
                self._guard(list(ast.iter_child_nodes(node)), [*under, (None, True)])
            elif isinstance(node, ast.match_case):
                self._guard(node.body, under)

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            if node.value is not None:
                self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign | ast.For | ast.AsyncFor):
            for name in ast.walk(node.target):
                if isinstance(name, ast.Name):
                    self.assigned.setdefault(name.id, []).append(None)
                    self.updated.add(name.id)
        elif isinstance(node, ast.Delete):
            self.updated.update(dotted(one.value) for one in node.targets if isinstance(one, ast.Subscript))
        elif isinstance(node, ast.ClassDef):
            self._classes.setdefault(node.name, {}).update(_fields(node))
            annotated = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
            self._annotated.update(target.id for target in annotated if isinstance(target, ast.Name))
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._functions.setdefault(node.name, []).append(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Attribute):
            self.attributes.setdefault(target.attr, []).append(value)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            if isinstance(target.slice, ast.Constant):
                self.items.setdefault(target.value.id, {}).setdefault(str(target.slice.value), []).append(value)
            else:
                self.updated.add(target.value.id)
        elif isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for index, part in enumerate(target.elts):
                if not isinstance(part, ast.Name):
                    continue
                inner = value.elts[index] if same and isinstance(value, ast.Tuple | ast.List) else None
                parsed = value if isinstance(value, ast.Call) and _parses(value) else None
                self.assigned.setdefault(part.id, []).append(inner or parsed)

    def _call(self, node: ast.Call) -> None:
        name = dotted(node.func)
        if name.endswith("add_argument"):
            option = _declared(node)
            if option is not None:
                self._options.setdefault(option.name, []).append(option)
        elif name.endswith("set_defaults"):
            for one in node.keywords:
                self._options.setdefault(one.arg or "", []).append(Option(one.arg or "", one.value))
        elif name == "setattr" and node.args:
            self.updated.add(dotted(node.args[0]))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            self.updated.add(dotted(node.func.value))
        if isinstance(node.func, ast.Name):
            self._calls.setdefault(node.func.id, []).append(node)

    def _parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef, known: bool) -> None:
        """What the parameters of a function are given: by the command line, by the calls in this file, or unknown."""
        declared = _decorated(function)
        entry = declared is not None or function.name in self._entries
        calls = self._calls.get(function.name, [])
        plain = [*function.args.posonlyargs, *function.args.args]
        defaults: list[ast.expr | None] = [
            *[None] * (len(plain) - len(function.args.defaults)),
            *function.args.defaults,
        ]
        pairs = [
            *zip(plain, defaults, strict=True),
            *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
        ]
        for place, (parameter, default) in enumerate(pairs):
            values = self.assigned.setdefault(parameter.arg, [])
            if entry:
                values.append((declared or {}).get(parameter.arg) or Option(parameter.arg, _default(default)))
            elif known and calls:
                values.extend(_passed(calls, parameter.arg, place if place < len(plain) else None, default))
            else:
                values.append(None)

    def fields_of(self, node: ast.expr) -> dict[str, Option] | None:
        """The fields of the object that an expression is: what a parser of this file returns, an instance of one of its
        classes, or the class; None where it is none of these or one that changes as a whole."""
        self._steps = 0
        found = list(self._objects(node, frozenset()))
        if not found or any(one != found[0] for one in found[1:]):
            return None
        return found[0]

    def _objects(self, node: ast.expr, seen: frozenset[str]) -> Iterator[dict[str, Option]]:
        self._steps += 1
        if self._steps > MAX_STEPS:
            return
        if isinstance(node, ast.Name):
            if node.id in seen or node.id in self.updated:
                return
            if node.id in self._classes:
                yield self._instance(node.id, ())
            for value in self.assigned.get(node.id, []):
                if isinstance(value, ast.expr):
                    yield from self._objects(value, seen | {node.id})
        elif isinstance(node, ast.Subscript):
            yield from self._objects(node.value, seen)
        elif isinstance(node, ast.Call):
            if _parses(node):
                yield self._command_line()
            elif isinstance(node.func, ast.Name) and node.func.id in self._classes:
                if not node.args:
                    yield self._instance(node.func.id, node.keywords)
            elif isinstance(node.func, ast.Name) and len(self._functions.get(node.func.id, ())) == 1:
                for below in ast.walk(self._functions[node.func.id][0]):
                    if isinstance(below, ast.Return) and below.value is not None:
                        yield from self._objects(below.value, seen | {node.func.id})

    def _instance(self, name: str, keywords: Sequence[ast.keyword]) -> dict[str, Option]:
        fields = {**self._classes[name], **{one.arg: one.value for one in keywords if one.arg}}
        return {key: Option(key, value, False, f"{name}.{key} is not set here") for key, value in fields.items()}

    def _command_line(self) -> dict[str, Option]:
        """The fields of all that the file's parsers make; of two with one name and unlike defaults neither is known."""
        found = {name: list(options) for name, options in self._options.items()}
        for fields in self._classes.values():
            for name, default in fields.items():
                if name in self._annotated:
                    found.setdefault(name, []).append(Option(name, default))
        return {
            name: options[0] if len({_text(one.default) for one in options}) == 1 else Option(name, None)
            for name, options in found.items()
        }


def _text(node: ast.expr | None) -> str:
    return "" if node is None else ast.dump(node)


def _parses(node: ast.Call) -> bool:
    name = dotted(node.func)
    return name in _PARSES or name.rpartition(".")[2] in _PARSES


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id, _default(part.value)
        elif isinstance(part, ast.Assign) and len(part.targets) == 1 and isinstance(part.targets[0], ast.Name):
            yield part.targets[0].id, part.value


def _default(value: ast.expr | None) -> ast.expr | None:
    """What a field is without more: ``field(default=...)`` of a dataclass or of pydantic, ``typer.Option(...)``."""
    if not isinstance(value, ast.Call):
        return value
    name = dotted(value.func).rpartition(".")[2]
    if name in ("field", "Field", "HfArg") or name in _DECLARES:
        given = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
        given = given or (value.args[0] if value.args and name != "field" else None)
        return None if isinstance(given, ast.Constant) and given.value is ... else given
    return value


def _declared(node: ast.Call) -> Option | None:
    """The option that a call declares: ``add_argument`` of a parser, ``click.option``."""
    names = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    plain = [name for name in names if name.isidentifier()]
    long = next((name for name in names if name.startswith("--")), names[0] if names else "")
    dest = given.get("dest")
    called = dest.value if isinstance(dest, ast.Constant) else plain[0] if plain else long
    name = str(called).split("/")[0].lstrip("-").replace("-", "_")
    default: ast.expr | None = given.get("default")
    action, flag = given.get("action"), given.get("is_flag")
    if default is None and isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
        default = ast.Constant(action.value == "store_false")
    if default is None and isinstance(flag, ast.Constant) and flag.value is True:
        default = ast.Constant(False)
    return Option(name, default) if name else None


def _decorated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Option] | None:
    """The options that decorators declare for a function, None where it is no command."""
    calls = [one for one in function.decorator_list if isinstance(one, ast.Call)]
    names = [dotted(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list]
    if not any(name.rpartition(".")[2] in _ENTRY_DECORATORS for name in names):
        return None
    options = [_declared(one) for one in calls if dotted(one.func).rpartition(".")[2] in _DECLARES]
    return {option.name: option for option in options if option is not None}


def _passed(
    calls: Sequence[ast.Call], name: str, place: int | None, default: ast.expr | None
) -> Iterator[ast.expr | None]:
    """What calls give a parameter; a name that is handed on under its own name says nothing more."""
    for call in calls:
        star = any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords)
        named = next((one.value for one in call.keywords if one.arg == name), None)
        placed = call.args[place] if place is not None and place < len(call.args) else None
        value = named or placed
        if isinstance(value, ast.Name) and value.id == name:
            continue
        yield None if star else value or default
