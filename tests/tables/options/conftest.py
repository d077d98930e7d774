"""Readers of source trees made on the spot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rldoctor.tables.options.fields import Classes
from rldoctor.tables.options.source import Sources
from rldoctor.tables.sources.trees import DirectoryTree
from tests.written import Write


@pytest.fixture
def classes(write: Write) -> Callable[[dict[str, str]], Classes]:
    """A reader of the classes in a package ``pkg`` made of the given files."""
    return lambda files: Classes(Sources(DirectoryTree(write(files)), ("pkg",)))
