"""Reads what a framework declares at each tag of its repository, for frameworks that publish no packages.

Part of the refresh. Nothing of the repository is executed: pyproject.toml and requirements.txt are data, setup.py is
read by its syntax tree."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


# Serves single files of every repository on GitHub at any tag or commit.
RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class SourceTree:
    """Where a framework declares its requirements: ``tags`` is the prefix of the release tags before the version,
    ``head`` the version of the newest commit where that is what people install."""

    url: str
    file: str
    tags: str | None = None
    head: str | None = None


@dataclass(frozen=True)
class Declared:
    """The requirements of one version in the form of ``Requires-Dist`` lines."""

    version: str
    requires: tuple[str, ...]
    python: str | None


def read(tree: SourceTree, clone: Path) -> list[Declared]:
    """What every tagged version declares, oldest tag first as git lists them, from a clone. Raises :class:`OSError`."""
    tags = _git("-C", str(clone), "tag", "--list", f"{tree.tags}[0-9]*").split() if tree.tags is not None else []

    def text(ref: str) -> str | None:
        try:
            return _git("-C", str(clone), "show", f"{ref}:{tree.file}")
        except OSError:  # the file did not exist yet at this tag
            return None

    return _versions(tree, tags, text)


def read_remote(tree: SourceTree, raw: str = RAW) -> list[Declared]:
    """The same without a clone: git lists the tags, and the one file is asked for at each. Raises :class:`OSError`."""
    tags = []
    if tree.tags is not None:
        listed = _git("ls-remote", "--tags", "--refs", tree.url, f"{tree.tags}[0-9]*")
        tags = [line.rpartition("refs/tags/")[2] for line in listed.splitlines()]
    repository = "/".join(tree.url.rstrip("/").split("/")[-2:])

    def text(ref: str) -> str | None:
        try:
            with urllib.request.urlopen(f"{raw}/{repository}/{ref}/{tree.file}", timeout=60) as answer:
                return str(answer.read().decode("utf-8", "replace"))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    return _versions(tree, tags, text)


def _versions(tree: SourceTree, tags: list[str], text: Callable[[str], str | None]) -> list[Declared]:
    refs = [(tag.removeprefix(tree.tags or ""), tag) for tag in tags]
    if tree.head is not None:
        refs.append((tree.head, "HEAD"))
    found = []
    for version, ref in refs:
        content = text(ref)
        if content is not None:
            requires, python = _READERS[Path(tree.file).name](content)
            found.append(Declared(version, tuple(requires), python))
    return found


def _git(*arguments: str) -> str:
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=quiet, timeout=120
        )
    except subprocess.TimeoutExpired:
        raise OSError("git did not answer within 120 s") from None
    if done.returncode:
        raise OSError(next(iter(done.stderr.strip().splitlines()[-1:]), f"git exited with {done.returncode}"))
    return done.stdout


def _from_pyproject(text: str) -> tuple[list[str], str | None]:
    project = tomllib.loads(text)["project"]
    requires = list(project.get("dependencies", []))
    for extra, lines in project.get("optional-dependencies", {}).items():
        requires += [_with_extra(line, extra) for line in lines]
    return requires, project.get("requires-python")


def _with_extra(line: str, extra: str) -> str:
    requirement, _, marker = line.partition(" ;" if " @ " in line else ";")
    condition = f'({marker.strip()}) and extra == "{extra}"' if marker.strip() else f'extra == "{extra}"'
    return f"{requirement.strip()} ; {condition}"


def _from_requirements(text: str) -> tuple[list[str], str | None]:
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("-")], None


def _from_setup(text: str) -> tuple[list[str], str | None]:
    """open-r1's manner: a list ``_deps`` of requirement lines, and ``install_requires`` that picks from it by name."""
    strings: dict[str, list[str]] = {}
    picked: list[str] = []
    python = None
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.List):
            items = node.value.elts
            strings[node.targets[0].id] = [str(x.value) for x in items if isinstance(x, ast.Constant)]
            if node.targets[0].id == "install_requires":
                keys = [x.slice for x in items if isinstance(x, ast.Subscript)]
                picked = [str(key.value) for key in keys if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.keyword) and node.arg == "python_requires" and isinstance(node.value, ast.Constant):
            python = str(node.value.value)
    by_name = {re.split(r"[^\w.-]", line, maxsplit=1)[0]: line for line in strings.get("_deps", [])}
    return [by_name[name] for name in picked if name in by_name], python


_READERS = {"pyproject.toml": _from_pyproject, "requirements.txt": _from_requirements, "setup.py": _from_setup}
