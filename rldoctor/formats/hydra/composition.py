"""Composes the Hydra config files that a launch names, as far as they are at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved
from rldoctor.launch.command import Arguments
from rldoctor.launch.launch import Launch
from rldoctor.plan.model import Note

MAX_FILES = 60


def composed(launch: Launch, arguments: Arguments) -> list[Native]:
    """The settings of the config that ``--config-path`` and ``--config-name`` (``-cp``, ``-cn``) name, its defaults
    list followed where the files stand beside it; empty where none is named. What the framework itself ships is not
    read here."""
    path = _text(arguments, "config_path", "cp", "config_dir", "cd")
    name = _text(arguments, "config_name", "cn")
    if name is None:
        return []
    folder = _relative(path or "")
    composer = _Composer(launch, folder)
    return list(composer.file(name.removesuffix(".yaml"), ""))


def _text(arguments: Arguments, *keys: str) -> str | None:
    for key in keys:
        value = arguments.value(key)
        if isinstance(value, Unresolved):
            return value.raw.strip("\"'")
        if isinstance(value, str):
            return value
    return None


def _relative(path: str) -> str:
    """A config path without an unknown beginning (``$PROJECT_DIR/config``), as files are looked for in the folders
    above."""
    if "$" in path:
        path = path[path.rindex("$") :].partition("/")[2]
    return path.strip("/") if not path.startswith("/") else path


class _Composer:
    def __init__(self, launch: Launch, folder: str) -> None:
        self.launch = launch
        self.folder = folder
        self.read = 0

    def file(self, name: str, package: str) -> Iterator[Native]:
        """The settings of one config file under ``package``, those of its defaults first unless ``_self_`` says
        otherwise."""
        self.read += 1
        if self.read > MAX_FILES:
            return
        wanted = f"{self.folder}/{name}.yaml" if self.folder else f"{name}.yaml"
        if self.launch.files.find(wanted) is None:
            self.launch.notes.append(Note(text=f"{wanted}: not found, taken for a config that the framework ships"))
            return
        tree = self.launch.yaml(wanted)
        if tree is None:
            return
        group = name.rpartition("/")[0]
        own = [native for native in tree.natives() if native.key not in ("defaults", "hydra")]
        placed = [_placed(native, package) for native in own]
        done = False
        defaults = tree.value.get("defaults")
        for entry in defaults if isinstance(defaults, list) else []:
            if entry == "_self_":
                yield from placed
                done = True
            else:
                yield from self._default(entry, package, group)
        if not done:
            yield from placed

    def _default(self, entry: Any, package: str, group: str) -> Iterator[Native]:
        if isinstance(entry, str):
            yield from self._part(entry.partition("@")[0], entry.partition("@")[2], package, group)
        elif isinstance(entry, dict):
            for key, option in entry.items():
                names = str(key).removeprefix("optional ").removeprefix("override ")
                where, _, at = names.partition("@")
                if isinstance(option, str):
                    yield from self._part(f"{where}/{option}", at or where.strip("/").replace("/", "."), package, group)

    def _part(self, name: str, at: str, package: str, group: str) -> Iterator[Native]:
        base = "" if name.startswith("/") or not group else f"{group}/"
        place = package if at in ("", "_here_") else "" if at == "_global_" else ".".join(p for p in (package, at) if p)
        # What is not beside the config is the framework's, on Hydra's search path: its values are the version's
        # defaults.
        yield from self.file(base + name.strip("/"), place)


def _placed(native: Native, package: str) -> Native:
    return native if not package else replace(native, key=f"{package}.{native.key}")
