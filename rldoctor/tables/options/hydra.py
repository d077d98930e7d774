"""Composes a tree of Hydra configuration files through their defaults lists, as far as a file's own text decides it.

Covered: ``_self_``, group entries with and without a package (``actor@actor_rollout_ref.actor: dp_actor``), relative
and absolute groups (``../optim@optim: fsdp``, ``/model@x: y``), ``optional`` and ``override`` entries, ``# @package``
headers, null choices, and choices that name another choice (``${model_engine}_actor``). NeMo-RL's ``defaults:``, which
names files, reads the same."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from rldoctor.tables.options import plain_yaml
from rldoctor.tables.sources.trees import SourceTree

_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)", re.MULTILINE)
_REFERENCE = re.compile(r"\$\{([\w./@]+)\}")
_OVERRIDE = "_override_"
_DEEPEST = 10


class Composer:
    """One configuration folder and the choices made in it."""

    def __init__(self, tree: SourceTree, folder: str, choices: Mapping[str, str] | None = None) -> None:
        self.tree = tree
        self.folder = folder
        self.choices = dict(choices or {})

    def compose(self, name: str) -> dict[str, Any] | None:
        """The whole configuration that ``name`` makes, or None where the file is absent or no mapping."""
        composed: dict[str, Any] = {}
        return composed if self._add(name, "", composed, 0) else None

    def _add(self, path: str, package: str, into: dict[str, Any], depth: int, placed: bool = False) -> bool:
        """Merges the file at ``path`` (relative to the folder, no suffix) and its defaults into ``into``; its own
        package header counts unless the entry that asks for it has ``placed`` it."""
        text = self.tree.read(f"{self.folder}/{path}.yaml") if depth <= _DEEPEST else None
        try:
            content = plain_yaml.load(text) if text is not None else None
        except ValueError:
            return False
        if text is None or not isinstance(content, dict | None):
            return False
        content = dict(content or {})
        header = _PACKAGE.search(text)
        if header and not placed:
            package = _declared_package(str(header.group(1)), path, package)
        entries = content.pop("defaults", None) or []
        content.pop("hydra", None)
        entries = entries if isinstance(entries, list) else [entries]
        self._note_choices([entry for entry in entries if entry != "_self_"])
        for entry in entries:
            if entry == "_self_":
                merge(_at(into, package), content)
            else:
                self._entry(entry, path, package, into, depth)
        if "_self_" not in entries:
            merge(_at(into, package), content)
        return True

    def _note_choices(self, entries: list[Any]) -> None:
        """Remembers what each group of a defaults list chooses, because later entries may refer to it."""
        for entry in entries:
            if isinstance(entry, dict):
                for key, value in entry.items():
                    group = str(key).split()[-1].partition("@")[0].lstrip("/")
                    if isinstance(value, str) and "override" in str(key).split()[:-1]:
                        self.choices[group] = value
                    elif isinstance(value, str):
                        self.choices.setdefault(group, value)

    def _entry(self, entry: Any, parent: str, package: str, into: dict[str, Any], depth: int) -> None:
        directory = posixpath.dirname(parent)
        if isinstance(entry, str):
            file, _, target = entry.removeprefix("optional ").removesuffix(".yaml").partition("@")
            path = file.lstrip("/") if file.startswith("/") else posixpath.join(directory, file)
            self._add(posixpath.normpath(path), _joined(package, target), into, depth + 1, bool(target))
            return
        if not isinstance(entry, dict):
            return
        for key, value in entry.items():
            words = str(key).split()
            if "override" in words[:-1]:
                continue
            group, at, target = words[-1].partition("@")
            absolute = group.startswith("/")
            folder = group.lstrip("/") if absolute else posixpath.normpath(posixpath.join(directory, group))
            chosen = self.choices.get(group.lstrip("/"), value) if not at else value
            below = folder if absolute else group.replace("../", "")
            inner = _joined(package, target if at else below.replace("/", "."))
            for name in chosen if isinstance(chosen, list) else [chosen]:
                if isinstance(name, str):
                    self._add(posixpath.join(folder, self._chosen(name)), inner, into, depth + 1, bool(at))

    def _chosen(self, name: str) -> str:
        """The file that a choice names once its references to other choices are filled in."""
        return _REFERENCE.sub(lambda match: self.choices.get(str(match.group(1)), str(match.group())), name)


def merge(base: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merges ``other`` into ``base``, mappings key by key and everything else by replacement; a mapping marked
    ``_override_`` (NeMo-RL's own addition) replaces too."""
    for key, value in other.items():
        if isinstance(value, Mapping):
            held = base.get(key)
            if not isinstance(held, dict) or value.get(_OVERRIDE):
                held = base[key] = {}
            merge(held, value)
        elif key != _OVERRIDE:
            base[key] = value


def _declared_package(declared: str, path: str, inherited: str) -> str:
    if declared == "_global_":
        return ""
    if declared == "_group_":
        return posixpath.dirname(path).replace("/", ".")
    return inherited if declared == "_here_" else declared


def _joined(package: str, name: str) -> str:
    if name == "_here_":
        return package
    if name == "_global_" or name.startswith("_global_."):
        return name.removeprefix("_global_").lstrip(".")
    return ".".join(part for part in (package, name) if part)


def _at(root: dict[str, Any], package: str) -> dict[str, Any]:
    """The mapping at the dotted ``package``, made where it is missing."""
    for part in package.split(".") if package else ():
        child = root.get(part)
        if not isinstance(child, dict):
            child = root[part] = {}
        root = child
    return root
