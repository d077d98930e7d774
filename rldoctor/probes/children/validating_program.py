"""What a trainer's program does with its command's words before it trains: its parser, and what it asserts of them.

Its module is imported as the launch starts it, and the statements that run when it is the program are run up to the
call of a function of its own that gets the settings. Arguments: ``module``, ``settings`` (what it calls them),
``words`` (of the command)."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leaves import leaves
from report import emit
from usage import OF_THE_MACHINE, UsageError, refused

_MACHINE = re.compile(f"(?i){OF_THE_MACHINE}")


def ways(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """One: as the program is called."""
    module = importlib.import_module(arguments["module"])
    file = Path(str(module.__file__))
    top = sys.modules[module.__name__.partition(".")[0]]
    emit("package", {"name": top.__name__, "version": getattr(top, "__version__", None)})
    emit("taken", sorted({word[2:].partition("=")[0] for word in arguments["words"] if word.startswith("--")}))
    emit("left_out", [])
    before = _before_training(ast.parse(file.read_text(encoding="utf-8")), arguments["settings"])
    code = compile(ast.Module(body=before, type_ignores=[]), str(file), "exec")
    return [("as called", lambda: _run(code, vars(module), file, arguments))]


def of_the_machine(error: BaseException) -> bool:
    """Whether a refusal is about devices or packages here, and not about the settings."""
    return not isinstance(error, UsageError) and _MACHINE.search(str(error)) is not None


def _before_training(tree: ast.Module, settings: str) -> list[ast.stmt]:
    """The statements of the module as a program, up to the first call of a function of its own with the settings."""
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    guarded = (node for node in tree.body if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test))
    body = next(guarded).body
    for number, one in enumerate(body):
        called = one.value if isinstance(one, ast.Expr) else None
        if (
            isinstance(called, ast.Call)
            and getattr(called.func, "id", None) in own
            and any(getattr(given, "id", None) == settings for given in called.args)
        ):
            return body[:number]
    raise LookupError(f"it is not seen where the training begins that gets {settings}")


def _run(code: Any, names: dict[str, Any], file: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    argparse.ArgumentParser.exit = refused  # type: ignore[assignment,method-assign]
    sys.argv = [str(file), *arguments["words"]]
    here = {**names, "__name__": "__main__"}
    exec(code, here)
    return dict(leaves(here[arguments["settings"]], _members))


def _members(node: Any) -> Mapping[str, Any] | None:
    return vars(node) if hasattr(node, "__dict__") and not callable(node) else None
