"""Where the source of a module lies, as the import system would find it along a search path."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from rldoctor.records import dataclass

_COMPILED = (".so", ".pyd")


class Kind(Enum):
    """``COMPILED`` has no source; ``NAMESPACE`` is a folder without ``__init__.py``; ``ABSENT`` is certain."""

    SOURCE = "source"
    COMPILED = "compiled"
    NAMESPACE = "namespace"
    ABSENT = "absent"


@dataclass(frozen=True)
class Found:
    """What lies at a module's name. ``path`` is empty where there is no source; ``package`` says whether other modules
    can lie below it; a package without ``__init__.py`` may lie in several ``folders``."""

    kind: Kind
    path: str = ""
    package: bool = False
    folders: tuple[str, ...] = ()


class SearchPath:
    """The folders of a ``sys.path``; archives among them are not looked into. ``assumed`` are top-level packages that
    are taken to be there although nothing of them is in these folders."""

    def __init__(self, roots: list[Path], assumed: frozenset[str] = frozenset()) -> None:
        self.roots = [str(root) for root in roots]
        self.assumed = assumed
        self._listings: dict[str, frozenset[str]] = {}
        self._found: dict[str, Found] = {}

    def find(self, name: str) -> Found:
        """The module with the dotted ``name``."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def folder(self, name: str) -> str | None:
        """The folder of a package, regular or namespace."""
        found = self.find(name)
        if found.kind is Kind.SOURCE and found.package:
            return found.path.rpartition("/")[0]
        if found.kind is Kind.NAMESPACE:
            return found.path
        return None

    def relative(self, path: str) -> str:
        """A file's path below the root that holds it, as tracebacks show it in short."""
        root = next((root for root in self.roots if path.startswith(f"{root}/")), "")
        return path[len(root) + 1 :] if root else path

    def stamps(self) -> dict[str, tuple[int, int]]:
        """What tells of each folder that was looked into whether a file has come or gone: when it changed, and -1."""
        found = {}
        for folder in self._listings:
            try:
                found[folder] = (os.stat(folder).st_mtime_ns, -1)  # noqa: PTH116
            except OSError:
                continue
        return found

    def _find(self, name: str) -> Found:
        parent, _, last = name.rpartition(".")
        if name in self.assumed:
            return Found(Kind.COMPILED, package=True)
        if parent:
            above = self.find(parent)
            if above.kind is Kind.ABSENT:
                return above
            if above.kind is Kind.COMPILED:
                return Found(Kind.COMPILED)
            folder = self.folder(parent)
            folders = list(above.folders) or ([folder] if folder is not None else [])
        else:
            folders = self.roots
        namespaces: list[str] = []
        for folder in folders:
            names = self._listing(folder)
            inside = self._listing(f"{folder}/{last}") if last in names else frozenset()
            if "__init__.py" in inside:
                return Found(Kind.SOURCE, f"{folder}/{last}/__init__.py", package=True)
            if any(n.startswith("__init__.") and n.endswith(_COMPILED) for n in inside):
                return Found(Kind.COMPILED, package=True)
            if f"{last}.py" in names:
                return Found(Kind.SOURCE, f"{folder}/{last}.py")
            if any(n.startswith(f"{last}.") and n.endswith(_COMPILED) for n in names):
                return Found(Kind.COMPILED)
            if inside:
                namespaces.append(f"{folder}/{last}")
        if not namespaces:
            return Found(Kind.ABSENT)
        return Found(Kind.NAMESPACE, namespaces[0], package=True, folders=tuple(namespaces))

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._listings:
            try:
                self._listings[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 (names, not thousands of paths)
            except OSError:
                self._listings[folder] = frozenset()
        return self._listings[folder]
