"""Reads a framework's options out of its source tree, group by group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rldoctor.tables.options.arguments import Arguments
from rldoctor.tables.options.comparisons import Comparisons
from rldoctor.tables.options.fields import Classes, find_class
from rldoctor.tables.options.hydra import composed, mapping
from rldoctor.tables.options.listings import listed
from rldoctor.tables.options.model import INHERITED, MISSING, Option, Options
from rldoctor.tables.options.parts import (
    ClassPart,
    ExamplesPart,
    FolderPart,
    HydraPart,
    Layout,
    MentionPart,
    OverlayPart,
    ParserPart,
    Part,
    SignaturePart,
)
from rldoctor.tables.options.signatures import signature_options
from rldoctor.tables.options.source import Definition, Sources
from rldoctor.tables.sources.trees import SourceTree

_TARGET = "_target_"


class Extractor:
    """Reads the parts of one framework's groups from one tree; every file is parsed at most once."""

    def __init__(self, layout: Layout, tree: SourceTree) -> None:
        self.layout = layout
        self.tree = tree
        self.sources = Sources(tree, layout.packages)
        self.classes = Classes(self.sources)
        self._groups: dict[str, Options] = {}
        self._compared: Comparisons | None = None

    def group(self, name: str) -> Options:
        """What the group's own parts declare, without the groups it includes; empty where the release has none. The
        words that code compares an option with are looked for in :meth:`worded`."""
        if name not in self._groups:
            self._groups[name] = {}
            for part in self.layout.groups[name].parts:
                self._groups[name].update(self._part(part))
            self._look_up(name)
        return self._groups[name]

    def _look_up(self, name: str) -> None:
        """Gives the options of a group the names that the layout tells a place of."""
        options = self._groups[name]
        for key, listing in self.layout.names.items():
            group, _, option = key.rpartition(":")
            if options and (option in options if not group else group == name):
                names = listed(self.tree, listing)
                held = options.get(option, Option(option, type=INHERITED))
                if names:
                    options[option] = replace(held, names=names, closed=listing.closed)

    def worded(self, option: Option) -> Option:
        """The option with the words that code compares it with, where it refuses others; as it is where the layout
        tells a place of its names."""
        if not self.layout.compared or any(key.rpartition(":")[2] == option.name for key in self.layout.names):
            return option
        if self._compared is None:
            self._compared = Comparisons(self.tree, self.layout.compared)
        return self._compared.named(option)

    def groups(self, names: Iterable[str] | None = None) -> dict[str, Options]:
        """The own options of the groups that this tree has, with their words."""
        read = {name: self.group(name) for name in (self.layout.groups if names is None else names)}
        return {n: {key: self.worded(o) for key, o in options.items()} for n, options in read.items() if options}

    def _part(self, part: Part) -> Options:
        if isinstance(part, ClassPart):
            return self._class(part)
        if isinstance(part, FolderPart):
            return self._folder(part)
        if isinstance(part, ParserPart):
            modules = ((self.sources.at(path), function) for path, function in part.places)
            return next((Arguments(self.classes).options(m, function) for m, function in modules if m), {})
        if isinstance(part, SignaturePart):
            return self._signature(part)
        if isinstance(part, HydraPart):
            return self._hydra(part)
        if isinstance(part, OverlayPart):
            return self._overlay(part)
        if isinstance(part, ExamplesPart):
            return self._examples(part)
        return self._mentions(part)

    def _class(self, part: ClassPart) -> Options:
        if part.requires is not None and self.tree.read(part.requires) is None:
            return {}
        for path, name in part.places:
            owner = find_class(self.sources, path, name)
            if owner is not None:
                return self.classes.options(owner, nested=part.nested, inherited=part.inherited)
        return {}

    def _folder(self, part: FolderPart) -> Options:
        found: Options = {}
        for path in self.tree.names(part.folder):
            module = self.sources.at(path) if path.endswith(f"/{part.file}") else None
            for name, node in (module.bindings if module else {}).items():
                owner = self.sources.resolve(module, name) if module and name.endswith(part.suffix) else None
                if isinstance(owner, Definition) and owner.node is node:
                    found.update(self.classes.options(owner, nested=True))
        return found

    def _signature(self, part: SignaturePart) -> Options:
        for path, name in part.places:
            module = self.sources.at(path)
            found = signature_options(self.classes, module, name) if module else {}
            if found:
                return found
        return {}

    def _hydra(self, part: HydraPart) -> Options:
        if part.needs is not None and self.tree.read(part.needs) is None:
            return {}
        for folder in part.folders:
            found = composed(self.tree, folder, part.name, dict(part.choices))
            if found:
                options = self._flattened(found)
                usual = self._hydra(replace(part, choices=())) if part.choices else {}
                return {name: option for name, option in options.items() if usual.get(name) != option}
        return {}

    def _overlay(self, part: OverlayPart) -> Options:
        for path in part.paths:
            content = mapping(self.tree.read(path))
            if content:
                return self._flattened({k: v for k, v in content.items() if k not in ("defaults", "hydra")})
        return {}

    def _examples(self, part: ExamplesPart) -> Options:
        found: Options = {}
        for path in self.tree.names(part.folder):
            name = path.rpartition("/")[2]
            if name.endswith(".yaml") and any(word in name for word in part.words):
                found.update(self._overlay(OverlayPart((path,))))
        return {name: Option(name, type=option.type) for name, option in found.items()}

    def _mentions(self, part: MentionPart) -> Options:
        text = self.tree.read(part.path) or ""
        quoted = (name for name in part.names if f'"{name.rpartition(".")[2]}"' in text or f'"{name}"' in text)
        return {name: Option(name, deprecated=True) for name in quoted}

    def _flattened(self, composed: dict[str, Any]) -> Options:
        found: Options = {}
        self._flatten(composed, "", found)
        return found

    def _flatten(self, node: dict[str, Any], prefix: str, found: Options) -> None:
        """Dotted names of the leaves; where ``_target_`` names a class of the tree, its fields join in."""
        for key, value in node.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict) and value:
                self._flatten(value, f"{name}.", found)
            elif value == "???":
                found[name] = Option(name, required=True)
            else:
                found[name] = Option(name, default=value, type=_type_of(value))
        target = node.get(_TARGET)
        if isinstance(target, str):
            self._join_fields(target, node, prefix, found)

    def _join_fields(self, target: str, node: dict[str, Any], prefix: str, found: Options) -> None:
        path, _, class_name = target.rpartition(".")
        module = self.sources.named(path) if path.split(".")[0] in self.layout.packages else None
        owner = self.sources.resolve(module, class_name) if module else None
        if not isinstance(owner, Definition):
            return
        for name, declared in self.classes.options(owner).items():
            held = found.get(prefix + name)
            if held is not None:
                found[held.name] = replace(held, type=declared.type or held.type, choices=declared.choices)
            elif name not in node and name != _TARGET:
                found[prefix + name] = replace(declared, name=prefix + name, added=True)


def _type_of(value: Any) -> str:
    """The type of a YAML leaf; null and references say nothing."""
    if value is None or value is MISSING or (isinstance(value, str) and "${" in value):
        return ""
    return "dict" if isinstance(value, dict) else type(value).__name__
