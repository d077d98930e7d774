"""What a framework declares at each tag of its repository, for releases that are not on the package index.

Nothing of the repository is executed: pyproject.toml and requirements.txt are data, setup.py is read by its syntax
tree."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

from rldoctor.frameworks.record import Repository
from rldoctor.records import dataclass
from rldoctor.refresh.releases import newest_version
from rldoctor.tables.sources.git import CloneTree, tags

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Declared:
    """The requirements of one version in the form of ``Requires-Dist`` lines."""

    version: str
    requires: tuple[str, ...]
    python: str | None


def read(source: Repository, clone: Path) -> list[Declared]:
    """What every tagged version declares, and the newest commit where that is what people install. A tag from before
    the file existed is left out. Raises ``OSError`` where git fails."""
    references = [(tag.removeprefix(source.tag), tag) for tag in tags(clone, source.tag)]
    newest = newest_version(source, clone)
    if newest is not None:
        references.append((newest, "HEAD"))
    found = []
    for version, reference in references:
        text = CloneTree(clone, reference).read(source.requirements)
        if text is not None:
            requires, python = _reader(source.requirements)(text)
            found.append(Declared(version, tuple(requires), python))
    return found


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


_READERS = {"pyproject.toml": _from_pyproject, "setup.py": _from_setup}


def _reader(path: str) -> Callable[[str], tuple[list[str], str | None]]:
    return _READERS.get(Path(path).name, _from_requirements)
