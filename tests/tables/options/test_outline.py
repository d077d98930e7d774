"""Source without function bodies parses to the same declarations."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json.decoder
import logging
import subprocess
import typing
from textwrap import dedent
from types import ModuleType

import pytest

from rldoctor.tables.options import arguments, fields
from rldoctor.tables.options.outline import outline

TRICKY = '''
class A:
    """A docstring with
def looks_like_code():
    inside."""

    x: int = 1

    @property
    def f(self, a={"b": ":"}, *, c=lambda: 1) -> dict[str, int]: # a comment (
        """Body
at column zero"""
        if x:
            return {
                1: 2}
        # a comment at """ depth
        return None

    y: str = "a # b"

    async def g(
        self,
        a=(1, 2),
    ):
        pass

    z: int = 3
def h(): return 1
w = 5
'''


def declarations(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Expr(ast.Constant(...))]
    return ast.dump(tree)


@pytest.mark.parametrize("module", [dataclasses, inspect, json.decoder, logging, subprocess, typing, fields, arguments])
def test_real_modules_keep_their_declarations(module: ModuleType) -> None:
    text = inspect.getsource(module)
    short = outline(text)
    assert short is not None
    assert declarations(ast.parse(short)) == declarations(ast.parse(text))
    assert short.count("\n") == text.count("\n")
    assert len(short) < len(text)


def test_strings_and_comments_do_not_mislead_it() -> None:
    text = TRICKY.replace("def looks_like_code", "  def looks_like_code")
    short = outline(text)
    assert short is not None
    assert declarations(ast.parse(short)) == declarations(ast.parse(text))


def test_what_it_is_not_sure_of_is_left_whole() -> None:
    assert outline(TRICKY) is None  # a definition in column zero of a string
    assert outline('x = """never closed') is None
    assert outline("def f(a,\n") is None


def test_short_source_is_unchanged_where_there_is_no_function() -> None:
    text = dedent("A = 1\nclass B:\n    c: int = 2\n")
    assert outline(text) == text


def test_what_is_generic_reads_on_interpreters_that_do_not_know_it() -> None:
    """A header keeps its columns, and a subscript elsewhere is what it was."""
    text = dedent(
        """
        def load[T: (A, B[int])](argv: list[str], kind: type[T]) -> tuple[T, str]:
            return kind(**{f"{name["a"]}": 1})
        class Task[T, U: Base](Base[T]):
            x: dict[str, int] = made[int](1)
            async def run[V](self, one: V) -> V:
                return one
        class Plain:
            y: list[int] = field(default_factory=list)
        """
    )
    plain = (
        text.replace("[T: (A, B[int])](", "(").replace("Task[T, U: Base](", "Task(").replace("run[V](", "run(")
    ).replace('f"{name["a"]}"', "name")
    short = outline(text)
    assert short is not None
    assert declarations(ast.parse(short)) == declarations(ast.parse(plain))
    found = next(node for node in ast.walk(ast.parse(short)) if isinstance(node, ast.Name) and node.id == "made")
    assert text.split("\n")[found.lineno - 1][found.col_offset :].startswith("made[int](1)")
