"""What runs only when it is called: the bodies of functions in the modules that a launch imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rldoctor.link.follow import Follower, Frame
from rldoctor.link.problems import When
from rldoctor.link.values import NOT_KNOWN, Module, Object


def follow_functions(follower: Follower) -> None:
    """Adds to the follower's problems those of the functions of every module that it loaded."""
    others = "|".join(sorted(follower.other))
    mention = re.compile(rf"^\s+(?:from|import)\s+(?:{others})\b", re.MULTILINE)
    follower.when = When.CALL
    for name, names in list(follower.modules.items()):
        outline = follower.sources.declarations(name)
        if outline is None or name.partition(".")[0] in follower.between:
            continue
        bound = any(isinstance(v, Module | Object) and _top(v) in follower.other for v in names.values())
        if not bound and not mention.search(outline.text):
            continue
        source = follower.sources.whole(name)
        for function, owner in _functions(source.tree.body) if source is not None else ():
            assert source is not None
            arguments = function.args
            given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            local = {argument.arg: NOT_KNOWN for argument in given if argument is not None}
            follower.follow(function.body, Frame(source, dict(local), 0, names, local=True, owner=owner))
    follower.when = When.IMPORT


def _functions(
    body: list[ast.stmt], owner: ast.ClassDef | None = None
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.ClassDef | None]]:
    """The functions and methods of a module, these with their class; those within others belong to these."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, owner
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, node)


def _top(value: Module | Object) -> str:
    return (value.name if isinstance(value, Module) else value.module).partition(".")[0]
