"""Reads what a framework declares at each tag of its repository, for frameworks that publish no packages.

Part of the maintainer's refresh. Nothing of the repository is executed: pyproject.toml and requirements.txt are data,
setup.py is read by its syntax tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
    """What every tagged version declares, oldest tag first as git lists them."""
    refs = []
    if tree.tags is not None:
        tags = _git(clone, "tag", "--list", f"{tree.tags}[0-9]*").split()
        refs += [(tag.removeprefix(tree.tags), tag) for tag in tags]
    if tree.head is not None:
        refs.append((tree.head, "HEAD"))
    found = []
    for version, ref in refs:
        try:
            text = _git(clone, "show", f"{ref}:{tree.file}")
        except subprocess.CalledProcessError:  # the file did not exist yet at this tag
            continue
        requires, python = _READERS[Path(tree.file).name](text)
        found.append(Declared(version, tuple(requires), python))
    return found


def _git(clone: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=True, timeout=120
    )
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
