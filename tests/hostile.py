"""Texts that make an expression work: what it looks for, over and over, and never to its end. They are made of the
expressions that a package has, so that whoever adds one is tested with it."""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_SIGNS = [ord(sign) for sign in "a0 x_-./:=\t\nA,\"('[{<|\\#Z@;)"]
_OF_A_CATEGORY = {"DIGIT": "0123456789", "WORD": "aZ0_", "SPACE": " \t\n"}
# What repeats so often makes work.
_OFTEN = 30


def expressions(package: ModuleType) -> Iterator[re.Pattern[str]]:
    """The expressions of text that the modules of a package have."""
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if info.ispkg:
            continue
        for value in vars(importlib.import_module(info.name)).values():
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(getattr(one, "pattern", None), str):
                    yield re.compile(one.pattern, one.flags)


def fragments(expression: re.Pattern[str], seed: int) -> Iterator[tuple[str, str]]:
    """A beginning, and what is to follow it again and again."""
    chosen = random.Random(seed)
    tree = list(_parser.parse(expression.pattern, expression.flags))
    found = _example(tree, chosen)
    yield "", found
    yield "", found[:-1]
    yield from _repeated(tree, "", chosen)


def _example(tree: list[Any], chosen: random.Random) -> str:
    """A text that the tree of an expression finds, but for what it asks of its surroundings."""
    return "".join(_one(str(kind), value, chosen) for kind, value in tree)


def _one(kind: str, value: Any, chosen: random.Random) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind == "IN":
        return _of(value)
    if kind in ("NOT_LITERAL", "ANY"):
        return "a" if value != ord("a") else "b"
    if kind == "BRANCH":
        return _example(chosen.choice(value[1]), chosen)
    if kind == "SUBPATTERN":
        return _example(value[3], chosen)
    if kind.endswith("_REPEAT"):
        times = max(value[0], min(chosen.randrange(2), value[1]))
        return "".join(_example(value[2], chosen) for _ in range(times))
    return ""


def _of(members: list[Any]) -> str:
    """A character of a class."""
    held = {code for kind, value in members for code in _codes(str(kind), value)}
    negated = any(str(kind) == "NEGATE" for kind, _ in members)
    return next((chr(code) for code in _SIGNS if (code in held) is not negated), chr(min(held)) if held else "é")


def _codes(kind: str, value: Any) -> Iterator[int]:
    if kind == "LITERAL":
        yield value
    elif kind == "RANGE":
        yield from range(value[0], min(value[1], value[0] + 100) + 1)
    elif kind == "CATEGORY":
        named = str(value).rpartition("_")
        inside = map(ord, _OF_A_CATEGORY[named[2]])
        yield from set(_SIGNS) - set(inside) if "NOT" in named[0] else inside


def _repeated(tree: list[Any], before: str, chosen: random.Random) -> Iterator[tuple[str, str]]:
    """What stands before something that may repeat often, and that."""
    for kind, value in tree:
        inside: list[Any] = []
        if str(kind).endswith("_REPEAT"):
            inside = [value[2]]
            if value[1] >= _OFTEN:
                body = _example(value[2], chosen)
                yield before, body
                yield "", before + body * 2 * _OFTEN + "\n"
        elif str(kind) in ("SUBPATTERN", "BRANCH"):
            inside = [value[3]] if str(kind) == "SUBPATTERN" else value[1]
        for one in inside:
            yield from _repeated(list(one), before, chosen)
        before += _one(str(kind), value, chosen)
