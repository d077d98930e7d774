"""What a module gives to those who import from it: three answers, and "no" only where it is certain."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from enum import Enum

from rldoctor.io import untrusted
from rldoctor.link.locate import Kind
from rldoctor.link.names import Names
from rldoctor.link.sources import LARGEST, Source, Sources
from rldoctor.records import dataclass

_MANY = 16  # star imports in one module
_DEEPEST = 12  # star imports and aliases of aliases; real ones stay below five
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Answer(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Definition:
    """The statement that defines a name, and the module where it stands."""

    source: Source
    node: ast.ClassDef | Function


class Provider:
    """Looks names up in the sources of packages."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._texts: dict[str, bytes] = {}

    def has(self, module: str, name: str, depth: int = 0) -> Answer:
        """Whether ``module`` has an attribute ``name``, a submodule included."""
        if depth > _DEEPEST or (name.startswith("__") and name.endswith("__")):
            return Answer.UNKNOWN
        names = self.names(module)
        if names is None:
            below = self.sources.search.find(f"{module}.{name}").kind
            if self.sources.search.find(module).kind is Kind.NAMESPACE:
                return Answer.NO if below is Kind.ABSENT else Answer.YES
            return Answer.UNKNOWN
        if name in names.bound or self.sources.search.find(f"{module}.{name}").kind is not Kind.ABSENT:
            return Answer.YES
        unknown = False
        for star in self._likely(names, name):
            if self.exists(star) is Answer.NO:  # it stands where it never runs, for type checkers
                continue
            answer = self.has(star, name, depth + 1)
            if answer is Answer.YES:
                return answer
            unknown = unknown or answer is Answer.UNKNOWN
        if unknown or names.computed:
            return Answer.UNKNOWN
        if names.open:
            return Answer.UNKNOWN if self._mentioned(module, name) else Answer.NO
        return Answer.NO

    @staticmethod
    def _likely(names: Names, name: str) -> list[str]:
        """The star imports to look into. A lazy package has hundreds of them, one for each model; there only those
        whose own name begins the wanted one are read, and the rest is a search of its text."""
        if not names.open or len(names.stars) <= _MANY:
            return names.stars
        plain = name.lower().replace("_", "")
        return [star for star in names.stars if plain.startswith(star.rpartition(".")[2].replace("_", ""))]

    def exists(self, module: str) -> Answer:
        """Whether the module itself is there. A package may put modules into ``sys.modules`` under other names."""
        found = self.sources.search.find(module)
        if found.kind is not Kind.ABSENT:
            return Answer.YES if found.kind is Kind.SOURCE else Answer.UNKNOWN
        top, _, rest = module.partition(".")
        if top in sys.stdlib_module_names:  # its source is not among the packages
            return Answer.UNKNOWN
        if not rest:
            return Answer.NO
        root = self.sources.declarations(top)
        last = module.rpartition(".")[2]
        if root is None or re.search(rf"""["'](?:[\w.]*\.)?{re.escape(last)}["']""", root.text):
            return Answer.UNKNOWN
        return Answer.NO

    def definition(self, module: str, name: str, depth: int = 0) -> Definition | None:
        """The class or function behind ``module.name``, followed through imports, or None where it is not certain."""
        names = self.names(module)
        source = self.sources.declarations(module)
        if names is None or source is None or depth > _DEEPEST:
            return None
        node = names.bound.get(name)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return Definition(source, node)
        if isinstance(node, ast.ImportFrom):
            original = next((a.name for a in node.names if (a.asname or a.name) == name), None)
            return self.definition(source.origin(node), original, depth + 1) if original else None
        if node is None and not names.open:
            for star in names.stars:
                found = self.definition(star, name, depth + 1)
                if found is not None:
                    return found
        return None

    def names(self, module: str) -> Names | None:
        """What the module binds; None where it has no source to read."""
        source = self.sources.declarations(module)
        return source.names if source is not None else None

    def _mentioned(self, module: str, name: str) -> bool:
        """Whether a lazy module could give the name: somewhere in its package it is defined, or stands in quotes."""
        wanted = re.compile(
            rf"""^(?:class|def|async def)\s+{name}\b|^{name}\s*[=:]|["']{name}["']|^\s+{name},?$|import .*\b{name}\b""",
            re.MULTILINE,
        )
        # Most texts do not hold the name at all, which is seen much faster than by the expression.
        plain = name.encode()
        return any(
            plain in text and wanted.search(text.decode("utf-8", "replace")) for text in self._package_texts(module)
        )

    def _package_texts(self, module: str) -> Iterator[bytes]:
        folder = self.sources.search.folder(module)
        if folder is None:
            source = self.sources.declarations(module)
            yield from [source.text.encode("utf-8", "replace")] if source is not None else []
            return
        # Thousands of files, so that paths stay plain strings.
        for file in (
            f"{above}/{name}" for above, _, names in os.walk(folder) for name in names if name.endswith(".py")
        ):
            if file not in self._texts:
                self._texts[file] = _read(file)
            yield self._texts[file]


def _read(file: str) -> bytes:
    try:
        return untrusted.read(file, LARGEST)
    except OSError:
        return b""
