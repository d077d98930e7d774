"""Parsed modules, each read once."""

from __future__ import annotations

import ast
import os
import re
from functools import cached_property

from rldoctor.io import untrusted
from rldoctor.link.locate import Kind, SearchPath
from rldoctor.link.names import Names, names_of
from rldoctor.link.syntax import constants_of
from rldoctor.records import dataclass
from rldoctor.tables.options.outline import outline

LARGEST = 4 * 1024 * 1024  # bytes; larger files are generated tables
# What protects its source decodes it while it is imported; the text shows nothing of what the module has.
_OBFUSCATED = re.compile(r"^(?:__pyarmor\w*|exec)\(.*?(?:\\x|__file__|marshal|b64decode|zlib)", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """One module's text and tree; ``bodies`` is false where the bodies of functions were left out."""

    name: str
    path: str
    text: str
    tree: ast.Module
    package: bool
    bodies: bool

    @property
    def parent(self) -> str:
        """The package that a relative import starts from."""
        return self.name if self.package else self.name.rpartition(".")[0]

    @cached_property
    def names(self) -> Names:
        """What the statements of the module bind."""
        return names_of(self)

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """The numbers, texts and lists of such that the module gives to names and never changes."""
        return constants_of(self.tree)

    def origin(self, node: ast.ImportFrom) -> str:
        """The absolute name of the module that a ``from`` import reads."""
        if not node.level:
            return node.module or ""
        parts = self.parent.split(".")
        kept = parts[: len(parts) - node.level + 1]
        return ".".join([*kept, *([node.module] if node.module else [])])


class Sources:
    """The modules along a search path. ``unreadable`` says which could not be parsed, and why; ``stamps`` holds for
    every file read what tells whether it has changed since."""

    def __init__(self, search: SearchPath) -> None:
        self.search = search
        self.unreadable: dict[str, str] = {}
        self.stamps: dict[str, tuple[int, int]] = {}
        self._whole: dict[str, Source | None] = {}
        self._outlines: dict[str, Source | None] = {}

    def whole(self, name: str) -> Source | None:
        """The module with the bodies of its functions, or None where it has no source that can be parsed."""
        if name not in self._whole:
            self._whole[name] = self._read(name, bodies=True)
        return self._whole[name]

    def declarations(self, name: str) -> Source | None:
        """The module with or without the bodies of its functions, whichever is at hand: without is much faster."""
        if self._whole.get(name) is not None:
            return self._whole[name]
        if name not in self._outlines:
            self._outlines[name] = self._read(name, bodies=False)
        return self._outlines[name]

    def _read(self, name: str, bodies: bool) -> Source | None:
        found = self.search.find(name)
        if found.kind is Kind.COMPILED:
            self._note_compiled(name)
        if found.kind is not Kind.SOURCE:
            return None
        text = self._text(name, found.path)
        if text is None:
            return None
        if ("exec(" in text or "__pyarmor" in text) and _OBFUSCATED.search(text):
            self.unreadable[name] = f"{self.search.relative(found.path)} is obfuscated"
            return None
        short = None if bodies else outline(text)
        tree = _parsed(short) if short is not None else None
        whole = tree is None
        if tree is None:
            tree = _parsed(text)
        if tree is None:
            self.unreadable[name] = f"{self.search.relative(found.path)} is not Python that this interpreter can parse"
            return None
        return Source(name, found.path, text, tree, found.package, whole)

    def _note_compiled(self, name: str) -> None:
        """Notes a module that has no source to read, but for extensions behind modules that have, as ``torch._C``."""
        top, *rest = name.split(".")
        if top in self.search.assumed:
            self.unreadable[name] = f"{name} is in an archive"
        elif not any(part == top or part.startswith("_") for part in rest):
            self.unreadable[name] = f"{name} is compiled"

    def _text(self, name: str, path: str) -> str | None:
        try:
            status = os.stat(path)  # noqa: PTH116 (called for hundreds of files)
            self.stamps[path] = (status.st_mtime_ns, status.st_size)
            if status.st_size > LARGEST:
                self.unreadable[name] = f"{self.search.relative(path)} has {status.st_size >> 20} MiB"
                return None
            return untrusted.text(path, LARGEST)
        except OSError as error:
            self.unreadable[name] = f"{self.search.relative(path)}: {error.strerror or error}"
            return None


def _parsed(text: str) -> ast.Module | None:
    try:
        return untrusted.python(text)
    except SyntaxError:
        return None
