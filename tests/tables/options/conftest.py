"""Source trees made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from rldoctor.tables.options.fields import Classes
from rldoctor.tables.options.source import Sources
from rldoctor.tables.sources.trees import DirectoryTree

Write = Callable[[dict[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes files (path -> text) below a folder and gives the folder."""

    def written(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text), "utf-8")
        return tmp_path

    return written


@pytest.fixture
def classes(write: Write) -> Callable[[dict[str, str]], Classes]:
    """A reader of the classes in a package ``pkg`` made of the given files."""
    return lambda files: Classes(Sources(DirectoryTree(write(files)), ("pkg",)))
