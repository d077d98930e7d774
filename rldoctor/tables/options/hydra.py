"""The configurations that a framework ships, composed from its source tree."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from rldoctor.errors import InputError
from rldoctor.formats.hydra.composer import Composer, ConfigFile, merge
from rldoctor.formats.source import Source
from rldoctor.formats.yaml.reader import read_value
from rldoctor.records import dataclass
from rldoctor.tables.sources.trees import SourceTree

_DEEPEST = 10


def composed(
    tree: SourceTree, folder: str, name: str, choices: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """The configuration that ``name`` makes in a folder of configurations, or None where that file is absent or no
    mapping. ``choices`` are those that count where no file makes another one."""
    files = _Files(tree, folder)
    if files.read(name) is None:
        return None
    return Composer(files, choices=choices).compose(name).tree()


def mapping(text: str | None) -> Mapping[str, Any] | None:
    """What a YAML file holds; None where it is absent, no YAML or no mapping."""
    try:
        content = read_value(Source(text, "")) if text is not None else None
    except InputError:
        return None
    return content if isinstance(content, dict) else None if content is not None or text is None else {}


@dataclass(frozen=True)
class _Files:
    """A folder of configurations in a source tree."""

    tree: SourceTree
    folder: str

    def read(self, path: str) -> ConfigFile | None:
        file = posixpath.normpath(f"{self.folder}/{path}.yaml")
        text = self.tree.read(file)
        content = mapping(text)
        if text is None or content is None:
            return None
        return ConfigFile(self._inherited(content, path), ConfigFile.header(text), file)

    def _inherited(self, content: Mapping[str, Any], path: str, depth: int = 0) -> Mapping[str, Any]:
        """A file with all of those that its ``defaults`` names as files: no groups, and not Hydra's order."""
        named = content.get("defaults")
        names = named if isinstance(named, list) else [named]
        files = [name for name in names if isinstance(name, str) and name.endswith((".yaml", ".yml"))]
        if not files or len(files) < len(names) or depth > _DEEPEST:
            return content
        whole: dict[str, Any] = {}
        for name in files:
            parent = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            found = mapping(self.tree.read(posixpath.normpath(f"{self.folder}/{parent}")))
            merge(whole, self._inherited(found or {}, parent, depth + 1))
        merge(whole, {key: value for key, value in content.items() if key != "defaults"})
        return whole

    def has_group(self, path: str) -> bool:
        return bool(self.tree.names(posixpath.normpath(f"{self.folder}/{path}")))
