"""A framework's source as a set of text files, wherever it lies: a folder here, an archive or a clone elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

_LARGEST = 4 * 1024 * 1024  # bytes; no option is declared in a file larger than this


class SourceTree(Protocol):
    """Read access to source text; paths are relative, with forward slashes."""

    def read(self, path: str) -> str | None:
        """The text of the file at ``path``, or None where there is none."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The paths of the files below ``folder``."""


class DirectoryTree:
    """A folder on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}/"

    def read(self, path: str) -> str | None:
        try:
            with open(self._prefix + path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - called often
                text = file.read(_LARGEST + 1)
        except (OSError, ValueError):
            return None
        return text if len(text) <= _LARGEST else None

    def names(self, folder: str) -> tuple[str, ...]:
        root = self.root / folder
        return tuple(sorted(p.relative_to(self.root).as_posix() for p in root.rglob("*.*") if p.is_file()))


class ChainTree:
    """Several trees seen as one: the first that has a file gives it."""

    def __init__(self, trees: Iterable[SourceTree]) -> None:
        self.trees = tuple(trees)

    def read(self, path: str) -> str | None:
        return next((text for tree in self.trees if (text := tree.read(path)) is not None), None)

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for tree in self.trees for name in tree.names(folder)))


class PrefixTree:
    """A tree whose packages lie below any of several folders, so that one path serves wheels, clones and installs."""

    def __init__(self, tree: SourceTree, prefixes: tuple[str, ...]) -> None:
        self.tree = tree
        self.prefixes = prefixes

    def read(self, path: str) -> str | None:
        return next((text for p in self.prefixes if (text := self.tree.read(p + path)) is not None), None)

    def names(self, folder: str) -> tuple[str, ...]:
        for prefix in self.prefixes:
            found = self.tree.names(prefix + folder)
            if found:
                return tuple(name.removeprefix(prefix) for name in found)
        return ()


def import_roots(site_packages: Path) -> list[Path]:
    """The folders from which ``site_packages`` imports: itself, the source trees its ``.pth`` files add, and those that
    the finders of editable installs map to. Read as text, never executed."""
    roots = [site_packages]
    try:
        entries = sorted(site_packages.iterdir())
    except OSError:
        return roots
    for entry in entries:
        if entry.suffix == ".pth":
            lines = entry.read_text("utf-8", "replace").splitlines()
            roots += [site_packages / line.strip() for line in lines if line.strip() and not line.startswith("import")]
        elif entry.name.startswith("__editable__") and entry.suffix == ".py":
            roots += _mapped_roots(entry.read_text("utf-8", "replace"))
    return [root for root in dict.fromkeys(roots) if root.is_dir()]


def _mapped_roots(finder: str) -> list[Path]:
    """The source folders in the ``MAPPING`` of a setuptools editable finder."""
    found = re.search(r"^MAPPING\b[^=]*=\s*(\{.*?\})\s*$", finder, re.MULTILINE | re.DOTALL)
    try:
        mapping = ast.literal_eval(found.group(1)) if found else {}
    except (ValueError, SyntaxError):
        return []
    return [Path(path).parent for path in mapping.values() if isinstance(path, str)]
