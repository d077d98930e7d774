"""Conditions on what is installed: comparisons of versions, ``is_vllm_available()``, ``find_spec``, ``hasattr``; and on
the variables of the environment."""

from __future__ import annotations

import ast
import operator
import platform
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from rldoctor.facts.environment import is_allowed
from rldoctor.link.locate import Kind
from rldoctor.link.provided import Answer
from rldoctor.link.syntax import defined_as, last_name, parts_of
from rldoctor.link.values import NOT_KNOWN, Known, Made, Module, Object, Settings, Several, Value
from rldoctor.versions import parsed

if TYPE_CHECKING:
    from rldoctor.link.follow import Follower, Frame

_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_AVAILABLE = re.compile(r"_?is_(\w+?)_(?:available|installed)")
# The modules behind what such a function calls a package, of those in which no names are looked up.
_SPOKEN = {
    "rich": "rich",
    "sklearn": "sklearn",
    "wandb": "wandb",
    "flash_attn_2": "flash_attn",
    "torch_npu": "torch_npu",
}

# Kinds of device that a package beside torch brings, ``torch_npu`` for one.
_PLUGGED = frozenset({"npu", "mlu", "musa"})

# The sources that are followed lie on the machine that runs them.
MACHINE = {"platform.system": platform.system, "platform.machine": platform.machine}


def compared(test: ast.cmpop, left: Value, right: Value) -> Value:
    """A comparison of two values; one of unlike things, which Python refuses, is not known."""
    if isinstance(test, ast.Is | ast.IsNot) and Known(None) in (left, right):
        other = right if left == Known(None) else left
        if isinstance(other, Module | Object | Settings | Made):
            return Known(isinstance(test, ast.IsNot))
    if not isinstance(left, Known) or not isinstance(right, Known):
        return NOT_KNOWN
    try:
        return Known(bool(_ORDER[type(test)](left.value, right.value)))
    except TypeError:
        return NOT_KNOWN


def called(follower: Follower, node: ast.Call, frame: Frame) -> Value:
    """What a call returns, for the few functions that conditions are made of."""
    name = last_name(node.func)
    arguments = [follower.evaluate(argument, frame) for argument in node.args]
    first = arguments[0] if arguments else NOT_KNOWN
    if name == "hasattr" and len(arguments) == 2:
        return _has(follower, *arguments)
    if name in ("parse", "Version", "LooseVersion") and isinstance(first, Known):
        return _parsed(first.value)
    if name == "str" and isinstance(first, Known):
        return Known(str(first.value))
    if name == "find_spec" and isinstance(first, Known) and isinstance(first.value, str):
        return Object("importlib.util", "spec") if _installed(follower, first.value) else Known(None)
    target = follower.evaluate(node.func, frame)
    origin = target.dotted if isinstance(target, Object) else ""
    if origin in MACHINE:
        return Known(MACHINE[origin]())
    if origin in ("os.getenv", "os.environ.get") and arguments:
        found = variable(follower, first)
        return arguments[1] if found == Known(None) and len(arguments) > 1 else found
    if origin.startswith(("importlib.metadata.", "importlib_metadata.", "pkg_resources.")) and name in ("version",):
        return _version(follower, first)
    returned = _returned(follower, target, node, arguments, frame) if isinstance(target, Object) else NOT_KNOWN
    available = _AVAILABLE.fullmatch(name)
    spoken = available[1] if available is not None and not isinstance(returned, Several) else None
    by_name = _available(follower, spoken, node, arguments, frame) if spoken is not None else NOT_KNOWN
    return returned if by_name == NOT_KNOWN else by_name


def _returned(follower: Follower, target: Object, node: ast.Call, arguments: list[Value], frame: Frame) -> Value:
    """What an own function returns, followed with these arguments; of another package's function only that it is a
    tuple whatever it is asked, which counts as true."""
    top = target.module.partition(".")[0]
    if top in follower.own:
        return follower.call(target, _bound(follower, target, node, arguments, frame))
    definition = follower.provider.definition(target.module, target.name) if top in follower.other else None
    declared = (
        definition.node.returns if definition is not None and not isinstance(definition.node, ast.ClassDef) else None
    )
    if definition is None or declared is None or not ast.unparse(declared).lower().startswith("tuple[bool"):
        return NOT_KNOWN
    source = follower.sources.whole(definition.source.name)
    function = defined_as(source.tree.body, definition.node.name) if source is not None else None
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or not _ends_in_return(function.body):
        return NOT_KNOWN
    given = [part.value for part in parts_of(function.body) if isinstance(part, ast.Return)]
    sizes = {len(value.elts) if isinstance(value, ast.Tuple) else 0 for value in given}
    return Several(sizes.pop(), target) if len(sizes) == 1 and 0 not in sizes else NOT_KNOWN


def _ends_in_return(body: list[ast.stmt]) -> bool:
    last = body[-1]
    both = isinstance(last, ast.If) and bool(last.orelse) and all(map(_ends_in_return, (last.body, last.orelse)))
    return both or isinstance(last, ast.Return)


def variable(follower: Follower, name: Value) -> Value:
    """A variable of the environment: its text, None where it is not set; not known where nobody looked for it."""
    if follower.environment is None or not isinstance(name, Known) or not isinstance(name.value, str):
        return NOT_KNOWN
    text = follower.environment.get(name.value)
    return Known(text) if text is not None or is_allowed(name.value) else NOT_KNOWN


def _available(follower: Follower, spoken: str, node: ast.Call, arguments: list[Value], frame: Frame) -> Value:
    """``is_vllm_available()``, with or without the version that it must have at least."""
    module = _SPOKEN.get(spoken, spoken)
    if not _installed(follower, module):
        known = spoken in _SPOKEN or module in follower.other or module in follower.own
        return Known(False) if known else NOT_KNOWN
    keywords = {k.arg: follower.evaluate(k.value, frame) for k in node.keywords}
    least = keywords.get("min_version", arguments[0] if arguments else None)
    if least is None:
        # Some of these functions look at versions too; so only a package that is there is told, not which release.
        return Known(True) if module in follower.other | follower.own else NOT_KNOWN
    at_hand = _parsed(follower.versions.get(module))
    wanted = _parsed(least.value) if isinstance(least, Known) else NOT_KNOWN
    return compared(ast.GtE(), at_hand, wanted)


def _installed(follower: Follower, module: str) -> bool:
    return follower.sources.search.find(module).kind is not Kind.ABSENT


def _has(follower: Follower, owner: Value, name: Value) -> Value:
    if not isinstance(owner, Module) or not isinstance(name, Known) or not isinstance(name.value, str):
        return NOT_KNOWN
    if owner.name == "torch" and name.value in _PLUGGED:
        return Known(_installed(follower, f"torch_{name.value}"))
    if owner.name.partition(".")[0] not in follower.other:
        return NOT_KNOWN
    answer = follower.provider.has(owner.name, name.value)
    return NOT_KNOWN if answer is Answer.UNKNOWN else Known(answer is Answer.YES)


def _version(follower: Follower, distribution: Value) -> Value:
    if not isinstance(distribution, Known) or not isinstance(distribution.value, str):
        return NOT_KNOWN
    module = re.sub(r"[-.]+", "_", distribution.value).lower()
    found = follower.versions.get(module)
    return Known(found) if found is not None else NOT_KNOWN


def _parsed(text: Any) -> Value:
    if isinstance(text, Version):
        return Known(text)
    version = parsed(text) if isinstance(text, str) else None
    return NOT_KNOWN if version is None else Known(version)


def _bound(
    follower: Follower, target: Object, node: ast.Call, arguments: list[Value], frame: Frame
) -> dict[str, Value]:
    """The parameters of an own function by name, as a call gives them."""
    source = follower.sources.whole(target.module)
    function = next((n for n in (source.tree.body if source else ()) if getattr(n, "name", "") == target.name), None)
    if not isinstance(function, ast.FunctionDef) or source is None:
        return {}
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    bound: dict[str, Value] = dict.fromkeys((*names, *(a.arg for a in function.args.kwonlyargs)), NOT_KNOWN)
    defaults = function.args.defaults
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        bound[name] = follower.evaluate(default, frame) if isinstance(default, ast.Constant) else NOT_KNOWN
    bound |= dict(zip(names, arguments, strict=False))
    return bound | {k.arg: follower.evaluate(k.value, frame) for k in node.keywords if k.arg}
