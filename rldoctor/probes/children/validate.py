"""Hands settings to a package's own validators and records what they make of them; no device is touched.

Arguments: ``by`` (``engine``, ``arguments``, ``program``, ``composition`` or ``runtime_env``: the module
``validating_<by>`` that calls them) and what that takes.
What the launch leaves open is tried in several ways. Records, in order: ``stage`` (``import``, ``validate``,
``refused``), ``package`` (the release that answered), ``taken`` and ``left_out`` (settings by name), ``tried`` (each
way with its ``error``, None where it was accepted), ``effective`` (what every accepted way came to), ``place`` (where
and when the refusal is raised). A refusal that every way meets ends the child as its exception does, so that its log
reads as that of the launch."""

from __future__ import annotations

import argparse
import ast
import importlib
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from report import emit, run, stage

# What says that a value is not taken. Others tell of files, of packages or of this machine.
REFUSALS = (ValueError, AssertionError, NotImplementedError, TypeError)

Way = tuple[str, Callable[[], dict[str, Any]]]


def main(arguments: dict[str, Any]) -> None:
    stage("import")
    validating = importlib.import_module(f"validating_{arguments['by']}")
    ways = validating.ways(arguments)
    stage("validate")
    tried = [attempt(*way) for way in ways]
    emit("tried", [{"way": name, "error": None if error is None else text(error)} for name, error, _ in tried])
    errors = [error for _, error, _ in tried if error is not None]
    if len(errors) < len(tried):
        emit("effective", agreed([made for _, error, made in tried if error is None]))
        return
    first = errors[0]
    if all(refuses(error, validating) and place(error) == place(first) for error in errors):
        emit("place", reads(first))
        stage("refused")
    raise first


def attempt(name: str, validate: Callable[[], dict[str, Any]]) -> tuple[str, BaseException | None, dict[str, Any]]:
    try:
        return name, None, validate()
    except (Exception, SystemExit) as error:
        return name, innermost(error), {}


def refuses(error: BaseException, validating: Any) -> bool:
    """Whether an exception is the validator's word on the settings, and not on this machine."""
    taken = (*REFUSALS, *getattr(validating, "REFUSALS", ()))
    return isinstance(error, taken) and not validating.of_the_machine(error)


def innermost(error: BaseException) -> BaseException:
    """The validator's own exception, which pydantic wraps."""
    details = getattr(error, "errors", None)
    if callable(details):
        for detail in details():
            own = (detail.get("ctx") or {}).get("error")
            if isinstance(own, Exception):
                return own
    return error


def agreed(made: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What is the same in all of them."""
    first, *others = made
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def place(error: BaseException) -> tuple[str, int | None]:
    """The file and line that raise."""
    frames = frames_of(error)
    return (frames[-1].filename, frames[-1].lineno) if frames else ("", None)


def frames_of(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an exception, up to where the packages hand it back to the modules here, or words to a parser."""
    frames = list(traceback.extract_tb(error.__traceback__))
    outside = (Path(__file__).parent, Path(argparse.__file__).parent)
    while len(frames) > 1 and Path(frames[-1].filename).parent in outside:
        frames.pop()
    return frames


def reads(error: BaseException) -> dict[str, Any]:
    """Where a refusal is raised: ``file``, ``line``, ``function``, the ``condition`` around it and the ``names`` in
    it."""
    frames = frames_of(error)
    if not frames:
        return {"file": None, "line": None, "function": None, "condition": None, "names": []}
    last = frames[-1]
    tests: list[ast.expr] = []
    try:
        tree = ast.parse(Path(last.filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        tree = ast.Module(body=[], type_ignores=[])
    for node in ast.walk(tree):
        inside = isinstance(node, (ast.If, ast.Assert)) and node.lineno <= (last.lineno or 0) <= (node.end_lineno or 0)
        if inside and isinstance(node, (ast.If, ast.Assert)):
            tests.append(node.test)
    names = {getattr(part, "attr", getattr(part, "id", "")) for test in tests for part in ast.walk(test)}
    return {
        "file": last.filename,
        "line": last.lineno,
        "function": last.name,
        "condition": ast.unparse(tests[-1]) if tests and hasattr(ast, "unparse") else None,
        "names": sorted(names - {"", "self"}),
    }


if __name__ == "__main__":
    run(main)
