"""What the rooms of the house may know of each other: imports, lazy ones too, go one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rldoctor

HOUSE = Path(rldoctor.__file__).parent

# From the ground up: a room may import those before it. Files of the ground floor (errors, model, case, check, lookup,
# judge, settings and so on) are everybody's.
ROOMS = (
    "plan",
    "redact",
    "formats",
    "tables",
    "frameworks",
    "knowledge",
    "facts",
    "launch",
    "edits",
    "link",
    "refresh",
    "probes",
    "fleet",
    "exhibits",
    "logs",
    "verdict",
    "flow",
    "hang",
    "report",
    "watch",
    "compat",
    "cli",
)


def imports(file: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def against_the_order() -> dict[tuple[str, str], list[str]]:
    """Imports from a room that comes later, with where they stand."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in sorted(HOUSE.rglob("*.py")):
        room = file.relative_to(HOUSE).parts[0].removesuffix(".py")
        for name in imports(file) if room in ROOMS else ():
            other = name.split(".")[1] if name.startswith("rldoctor.") else ""
            if other in ROOMS and ROOMS.index(other) > ROOMS.index(room):
                found.setdefault((room, other), []).append(str(file.relative_to(HOUSE)))
    return found


def test_rooms_import_only_those_before_them() -> None:
    assert against_the_order() == {}


@pytest.mark.parametrize("folder", ["flow", "edits", "cli", "report"])
def test_no_two_files_of_a_room_import_each_other(folder: str) -> None:
    files = {f"rldoctor.{folder}.{file.stem}": set(imports(file)) for file in (HOUSE / folder).glob("*.py")}
    circles = [(a, b) for a in files for b in files if a < b and b in files[a] and a in files[b]]
    assert not circles


def test_a_collector_knows_nothing_of_who_asked() -> None:
    """Facts are collected for a request, not for a command line."""
    known = {name for file in (HOUSE / "facts").rglob("*.py") for name in imports(file)}
    assert not [name for name in known if name.startswith(("rldoctor.flow", "rldoctor.cli", "rldoctor.report"))]
