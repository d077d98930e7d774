"""Composes configuration files as Hydra does: defaults lists, packages, group choices and their overrides, from the
files and from the command line (the rules are those of hydra/_internal/defaults_list.py of 1.3)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from rldoctor.formats.hydra.grammar import Override
from rldoctor.formats.native import Located
from rldoctor.records import dataclass

MAX_FILES = 500
MAX_DEPTH = 40
_HEADER = re.compile(r"^\s*#\s*@package[ \t]+(\S+)", re.MULTILINE)
_REFERENCE = re.compile(r"\$\{([\w./@-]+)\}")
_GLOBAL = "_global_"
# Marks a mapping that replaces what it would be merged into (an addition of one framework's).
REPLACES = "_override_"


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file: its content, the package its header names, and where it stands."""

    content: Mapping[str, Any]
    package: str | None = None
    file: str = ""

    @staticmethod
    def header(text: str) -> str | None:
        """The package that a ``# @package`` line names, or None."""
        found = _HEADER.search(text)
        return found[1] if found is not None else None


class Sources(Protocol):
    """Where configuration files lie. Paths have no suffix."""

    def read(self, path: str) -> ConfigFile | None:
        """The file at ``path``, or None where there is none."""

    def has_group(self, path: str) -> bool:
        """Whether ``path`` is a folder of configurations."""


@dataclass(frozen=True)
class Part:
    """A piece of the composed configuration: what ``file`` gives under the dotted ``package``. Parts merge in their
    order. ``content`` is None where the file was not found."""

    path: str
    package: str
    file: ConfigFile | None

    @property
    def content(self) -> dict[str, Any]:
        """Its settings, without what Hydra itself reads."""
        content = self.file.content if self.file is not None else {}
        kept = {key: value for key, value in content.items() if key not in ("defaults", "hydra")}
        return Located(kept, content.lines) if isinstance(content, Located) else kept


@dataclass
class Composition:
    """The parts of a configuration. ``missing`` are those whose file was not found, ``problems`` what Hydra would
    refuse, ``overrides`` those of the command line that set values (the others chose groups)."""

    parts: list[Part] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    overrides: list[Override] = field(default_factory=list)
    choices: dict[str, str | None] = field(default_factory=dict)

    @property
    def missing(self) -> list[Part]:
        return [part for part in self.parts if part.file is None]

    def tree(self) -> dict[str, Any]:
        """The parts merged, without the overrides."""
        merged: dict[str, Any] = {}
        for part in self.parts:
            merge(at(merged, part.package), part.content)
        return merged


@dataclass(frozen=True)
class _Entry:
    """An entry of a defaults list: ``group`` and its choice, or a file alone (``group`` None)."""

    group: str | None
    name: Any
    package: str | None = None
    optional: bool = False
    override: bool = False
    base: str = ""
    above: str = ""
    primary: bool = False

    def placed(self, base: str, above: str) -> _Entry:
        """The entry below a folder and a package."""
        package = self.package
        if package is not None and "_group_" in package:
            group = replace(self, base=base).folder.replace("/", ".")
            package = f"{_GLOBAL}.{package.replace('_group_', group)}"
        return replace(self, base=base, above=above, package=package)

    @property
    def folder(self) -> str:
        """The group's path from the root."""
        named = self.group if self.group is not None else posixpath.dirname(str(self.name))
        if (self.group if self.group is not None else str(self.name)).startswith("/"):
            return named.lstrip("/")
        return "/".join(part for part in (self.base, named) if part)

    @property
    def path(self) -> str:
        return "/".join(part for part in (self.folder, posixpath.basename(str(self.name))) if part)

    def at(self, header: str | None = None) -> str:
        """The package it lands in; ``header`` counts where the entry names none."""
        package = self.package if self.package is not None else header
        if package is None:
            named = self.group if self.group is not None else posixpath.dirname(str(self.name))
            package = named.lstrip("/").replace("/", ".")
        whole = ".".join(part for part in (self.above, package) if part)
        _, is_global, rest = whole.rpartition(_GLOBAL)
        return rest.removeprefix(".") if is_global else whole

    @property
    def key(self) -> str:
        """The name under which a choice of it is overridden."""
        usual, final = self.folder.replace("/", "."), self.at()
        return self.folder if usual == final else f"{self.folder}@{final or _GLOBAL}"


class Composer:
    """One search path and the overrides of one command line."""

    def __init__(
        self, sources: Sources, overrides: Iterable[Override] = (), choices: Mapping[str, str] | None = None
    ) -> None:
        self.sources = sources
        self.done = Composition()
        # Choices that count unless a file makes another one.
        self.assumed = dict(choices or {})
        self.chosen: dict[str, Any] = {}
        self.used: set[str] = set()
        self.leaves: set[str] = set()
        self.deleted: dict[str, Any] = {}
        self.appended: list[_Entry] = []
        self.files = 0
        for override in overrides:
            self._sort(override)

    def compose(self, name: str, shipped: bool = False) -> Composition:
        """What the primary configuration ``name`` and its defaults make. ``shipped`` says that files which are not here
        may lie with the framework: choices that no file at hand offers are then taken for theirs."""
        primary = _Entry(None, name.removesuffix(".yaml"), primary=True)
        self.done.parts = self._expand(primary, 0)
        unused = sorted(self.chosen.keys() - self.used)
        missing = next((index for index, part in enumerate(self.done.parts) if part.file is None), None)
        for key in reversed(unused):
            if shipped and missing is not None:
                self.done.parts[missing + 1 : missing + 1] = self._of_group(key)
            else:
                self.done.problems.append(f"{key}={self.chosen[key]}: no defaults list has this group")
        if not (shipped and missing is not None):
            unused = sorted(key for key in self.deleted if key not in self.used)
            self.done.problems += [f"~{key}: no defaults list has this group" for key in unused]
        return self.done

    def _of_group(self, key: str) -> list[Part]:
        """The parts of a choice whose group stands in a defaults list that is not at hand."""
        group, is_at, package = key.partition("@")
        entry = _Entry(
            f"/{group}", self.chosen[key], f"{_GLOBAL}.{package}".removesuffix(f".{_GLOBAL}") if is_at else None
        )
        return self._options(entry, 0)

    def _sort(self, override: Override) -> None:
        """Tells choices of a group from values."""
        if override.sweep and override.sign != "~":
            if not self.sources.has_group(override.key):
                self.done.overrides.append(override)
            else:
                self.done.problems.append(f"{override.key}: a sweep over several choices")
            return
        key = override.key if override.package is None else f"{override.key}@{override.package or _GLOBAL}"
        if isinstance(override.value, dict) or not self.sources.has_group(override.key):
            self.done.overrides.append(override)
        elif override.sign == "~":
            self.deleted[key] = override.value
        elif not isinstance(override.value, str | list):
            self.done.problems.append(f"{override.key}: the choice of a group is a name or a list of names")
        elif override.sign:
            self.appended.append(_Entry(override.key, override.value, _package(override.package)))
        else:
            self.chosen[key] = override.value

    def _expand(self, entry: _Entry, depth: int) -> list[Part]:
        """The parts of an entry and of the defaults of its file, in the order in which they merge."""
        self.files += 1
        if self.files > MAX_FILES or depth > MAX_DEPTH:
            self.done.problems.append(f"{entry.path}: too many files, or one that includes itself")
            return []
        if entry.group is not None:
            if entry.key in self.deleted and self.deleted[entry.key] in (None, entry.name):
                self.used.add(entry.key)
                return []
            before = self.done.choices.setdefault(entry.key, entry.name)
            if before != entry.name:
                self.done.problems.append(f"{entry.key}: both {before} and {entry.name} are chosen")
        if entry.name is None:
            return []
        if entry.name == "???":
            self.done.problems.append(f"{entry.key}: no choice is made")
            return []
        found = self.sources.read(entry.path)
        if found is None and entry.primary:
            appended = [one.placed("", "") for one in self.appended]
            return [Part(entry.path, "", None), *(part for one in appended for part in self._options(one, depth))]
        if found is None:
            return [] if entry.optional else [Part(entry.path, entry.at(), None)]
        header = _absolute(found.package)
        own = Part(entry.path, entry.at(header), found)
        entries = _listed(found.content.get("defaults"))
        if entries is None:
            self.done.problems.append(f"{entry.path}: its defaults are no list")
            return [own]
        more = self.appended if entry.primary else []
        selves = sum(one.name == "_self_" and one.group is None for one in entries)
        if (entries or more) and not selves and (any(not one.override for one in entries) or not entries):
            entries.append(_Entry(None, "_self_"))
        entries = [one.placed(entry.folder, own.package) for one in [*entries, *more]]
        for one in entries:
            if one.override:
                self.chosen.setdefault(one.key, one.name)
        children = self._children(entries, own, depth)
        if not children and entry.group is not None:
            if entry.key in self.leaves:
                self.done.problems.append(f"{entry.key}: chosen more than once")
            self.leaves.add(entry.key)
        return children or [own]

    def _children(self, entries: list[_Entry], own: Part, depth: int) -> list[Part]:
        # The last entry is expanded first: the overrides that its file holds count for those before it. A choice that
        # refers to others waits until these are made.
        slots: dict[int, list[Part]] = {}
        waiting: list[tuple[int, _Entry]] = []
        for index in range(len(entries) - 1, -1, -1):
            one = entries[index]
            if one.group is None and one.name == "_self_":
                slots[index] = [own]
            elif one.override or _is_hydras(one):
                continue
            else:
                one = self._overridden(one)
                if isinstance(one.name, str) and "${" in one.name:
                    waiting.append((index, one))
                else:
                    slots[index] = self._options(one, depth)
        for index, one in waiting:
            name = _REFERENCE.sub(lambda found: self._choice(found[1], found[0]), one.name)
            if "${" in name:
                self.done.problems.append(f"{one.key}: {one.name} refers to a choice that is not made")
                slots[index] = [Part(one.path, one.at(), None)]
            else:
                slots[index] = self._options(replace(one, name=name), depth)
        return [part for index in sorted(slots) for part in slots[index]]

    def _choice(self, key: str, written: str) -> str:
        choice = self.done.choices.get(key, self.chosen.get(key, self.assumed.get(key)))
        return choice if isinstance(choice, str) else written

    def _overridden(self, entry: _Entry) -> _Entry:
        if entry.group is None:
            return entry
        if entry.key in self.chosen:
            self.used.add(entry.key)
            return replace(entry, name=self.chosen[entry.key])
        return replace(entry, name=self.assumed[entry.key]) if entry.key in self.assumed else entry

    def _options(self, entry: _Entry, depth: int) -> list[Part]:
        if entry.group is None or not isinstance(entry.name, list):
            return self._expand(entry, depth + 1)
        found: list[list[Part]] = []
        for name in reversed(entry.name):
            one = replace(entry, group=None, name=f"{entry.group}/{name}")
            found.append(self._expand(one, depth + 1))
        return [part for parts in reversed(found) for part in parts]


def _listed(defaults: Any) -> list[_Entry] | None:
    if defaults is None:
        return []
    found: list[_Entry] = []
    for entry in defaults if isinstance(defaults, list) else [defaults]:
        if isinstance(entry, str):
            words = entry.split()
            name, is_at, package = words[-1].partition("@") if words else ("", "", "")
            found.append(
                _Entry(None, name.removesuffix(".yaml"), _package(package if is_at else None), "optional" in words[:-1])
            )
        elif isinstance(entry, dict):
            optional = entry.get("optional") is True and len(entry) > 1
            for key, name in entry.items():
                if optional and key == "optional":
                    continue
                words = str(key).split()
                group, is_at, package = words[-1].partition("@")
                marks = words[:-1]
                found.append(
                    _Entry(
                        group,
                        _names(name),
                        _package(package if is_at else None),
                        "optional" in marks or optional,
                        "override" in marks,
                    )
                )
        else:
            return None
    return found


def _names(name: Any) -> Any:
    if isinstance(name, list):
        return [str(part).removesuffix(".yaml") for part in name]
    return name if name is None else str(name).removesuffix(".yaml")


def _package(named: str | None) -> str | None:
    return "" if named == "_here_" else named


def _absolute(header: str | None) -> str | None:
    """The package of a header, which counts from the root; ``_group_`` is the usual one."""
    if header is None or header == "_group_":
        return None
    if header == _GLOBAL or header.startswith(f"{_GLOBAL}."):
        return header
    return f"{_GLOBAL}.{header}"


def _is_hydras(entry: _Entry) -> bool:
    """Whether an entry configures Hydra itself: its logging, its launcher."""
    return entry.folder.split("/")[0] == "hydra"


def merge(base: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merges ``other`` into ``base``: mappings key by key, everything else by replacement."""
    for key, value in other.items():
        if isinstance(value, Mapping):
            held = base.get(key)
            if not isinstance(held, dict) or value.get(REPLACES):
                held = base[key] = {}
            merge(held, value)
        elif key != REPLACES:
            base[key] = value


def at(root: dict[str, Any], package: str) -> dict[str, Any]:
    """The mapping at the dotted ``package``, made where it is missing."""
    for part in package.split(".") if package else ():
        child = root.get(part)
        if not isinstance(child, dict):
            child = root[part] = {}
        root = child
    return root
