"""Composes the Hydra configuration that a launch names, as far as its files are at hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from rldoctor.errors import InputError
from rldoctor.formats.hydra.composer import Composer, ConfigFile, Part
from rldoctor.formats.hydra.grammar import Override
from rldoctor.formats.native import Native
from rldoctor.formats.shell.arguments import Arguments
from rldoctor.formats.values import Unresolved
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.slips import slip
from rldoctor.plan.model import Form, Note, RefusedValue
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.formats.python.reader import PythonFile


_MODULE = re.compile(r"\w+(\.\w+)+")


def composed(launch: Launch, arguments: Arguments, ships: Callable[[str], bool]) -> list[Native]:
    """The settings of a launch in order of precedence: those of the configuration that ``--config-path`` and
    ``--config-name`` (``-cp``, ``-cn``) or the script's ``@hydra.main`` name, then the overrides that are values. Empty
    of the former where no file is at hand. ``ships`` says whether the framework itself has a file of that name, whose
    values are its defaults; any other file that is not found leaves a gap, which the launch notes."""
    search = _Search.of(launch, arguments, ships)
    launch.refused += filter(None, (_misnamed(launch, arguments, search, key) for key in (*_FOLDERS, *_NAMES)))
    if launch.python is not None and launch.python.source.file == launch.file:
        launch.miss("who starts the script may override its configuration on the command line")
    values = [native for native in arguments.natives if native.form is Form.OVERRIDE]
    for native in values:
        if search.may_choose(native):
            launch.miss(f"{native.spelled}/{native.value}.yaml was not found")
    if search.name is None and not search.folders:
        return values
    read = {id(native): _override(native) for native in values}
    composer = Composer(search, [override for override in read.values() if override is not None])
    done = composer.compose(search.name or "", shipped=True)
    for problem in done.problems:
        launch.notes.append(Note(text=f"Hydra's composition: {problem}", file=launch.file, line=launch.line))
    for part in done.missing:
        _gap(launch, part, ships, primary=part.path == (search.name or "").removesuffix(".yaml"))
    kept = {id(override) for override in done.overrides}
    listed = [native for part in done.parts for native in _natives(part)]
    return [*listed, *(native for native in values if read[id(native)] is None or id(read[id(native)]) in kept)]


# Options of Hydra that name a folder of configurations, and one of these.
_FOLDERS, _NAMES = ("config_path", "cp", "config_dir", "cd"), ("config_name", "cn")


def _misnamed(launch: Launch, arguments: Arguments, search: _Search, key: str) -> RefusedValue | None:
    """A folder of configurations, or one of these, that is not there, where one with nearly its name is."""
    native, text = arguments.find(key), _text(arguments, key)
    if native is None or not text:
        return None
    places = [_relative(text)] if key in _FOLDERS else [f"{folder}/{text}.yaml" for folder in search.folders if folder]
    there = launch.files.has_folder if key in _FOLDERS else launch.files.find
    if any("/" not in place or there(place) for place in places):
        return None
    for place in places:
        wanted = PurePosixPath(place)
        names = [name for name in launch.files.near(place) if PurePosixPath(name).suffix == wanted.suffix]
        there_are = [PurePosixPath(name).stem for name in names]
        one_or_more = (name for name in there_are if wanted.stem in (f"{name}s", name.removesuffix("s")))
        meant = slip(wanted.stem, there_are) or next(one_or_more, None)
        if meant is not None:
            found = str(wanted.with_name(f"{meant}{wanted.suffix}"))
            kind = "folder" if key in _FOLDERS else "configuration"
            return native.as_refused(
                owner="Hydra", value=text, takes=found, why=f"there is no such {kind}, and {found}"
            )
    return None


def _override(native: Native) -> Override | None:
    if native.package is None and "/" not in native.spelled and isinstance(native.value, Unresolved):
        return None
    key = native.spelled.partition("@")[0]
    return Override(key, native.value, native.operator, native.package, given=native.operator != "~")


def _natives(part: Part) -> list[Native]:
    content, file = part.content, part.file.file if part.file is not None else ""
    lines = getattr(content, "lines", {})
    found = []
    for name, value in content.items():
        key = f"{part.package}.{name}" if part.package else name
        found.append(Native(key=key, spelled=name, value=value, file=file, line=lines.get(name, 1), form=Form.YAML))
    return found


def _gap(launch: Launch, part: Part, ships: Callable[[str], bool], primary: bool) -> None:
    if part.path and ships(PurePosixPath(part.path).name):
        text = f"{part.path}.yaml: not found, taken for a config that the framework ships"
        launch.notes.append(Note(text=text, file=launch.file, line=launch.line))
    elif not primary:  # that one the dialect judges, which knows what its entry takes unnamed
        launch.miss(f"{part.path}.yaml was not found")


@dataclass
class _Search:
    """The search path of a launch, and the name of its primary configuration. ``whole`` says that the launch names
    every folder of it in letters."""

    launch: Launch
    folders: list[str]
    name: str | None
    whole: bool = True

    @staticmethod
    def of(launch: Launch, arguments: Arguments, ships: Callable[[str], bool]) -> _Search:
        """What the command line says, else what the script's decorator does."""
        path, name = _text(arguments, "config_path", "cp"), _text(arguments, "config_name", "cn")
        more = _text(arguments, "config_dir", "cd")
        script = launch.python or _module(launch)
        call = next(iter(script.calls("hydra.main")), None) if script is not None else None
        if call is not None and script is not None:
            own, of_call = call.keywords.get("config_path"), call.keywords.get("config_name")
            # What the framework's own main takes is its defaults; a fork may keep another one beside them.
            taken = name if name is not None and launch.python is None else of_call
            if launch.python is not None or not (isinstance(taken, str) and ships(_stem(taken))):
                name = name or (of_call if isinstance(of_call, str) else None)
                if path is None and isinstance(own, str):
                    path = str(PurePosixPath(script.source.file).parent / own)
        folders = [_relative(folder) for folder in (path, more) if folder is not None]
        place = _place(launch.entry) if launch.entry.endswith(".py") or not (name and ships(_stem(name))) else None
        if path is not None and not path.startswith("/") and place is not None:
            # A relative one is looked for beside the code that calls hydra.main or initialize.
            folders.append(str(place / folders[0]))
        search = _Search(launch, folders or ([""] if name is not None else []), name)
        search.extend(arguments)
        return search

    def extend(self, arguments: Arguments) -> None:
        """Adds ``hydra.searchpath`` of the command line, else of the primary configuration."""
        listed = arguments.value("hydra.searchpath")
        primary = self.read(self.name.removesuffix(".yaml")) if self.name is not None else None
        if listed is None and primary is not None:
            section = primary.content.get("hydra")
            listed = section.get("searchpath") if isinstance(section, dict) else None
        self.whole = listed is None or isinstance(listed, list)
        for entry in listed if isinstance(listed, list) else []:
            if not isinstance(entry, str):
                self.whole = False
            elif "${" not in entry:
                kind, _, rest = entry.rpartition("://")
                self.folders.append(_relative(rest.replace(".", "/") if kind == "pkg" else rest))

    def read(self, path: str) -> ConfigFile | None:
        for folder in self.folders:
            wanted = f"{folder}/{path}.yaml" if folder else f"{path}.yaml"
            if self.launch.files.find(wanted) is not None:
                tree = self.launch.yaml(wanted)
                if tree is None:
                    return None
                return ConfigFile(tree.value, ConfigFile.header(tree.source.text), tree.source.file)
        return None

    def may_choose(self, native: Native) -> bool:
        """Whether an override that adds a name chooses a file of a group that is not at hand: with a slash it does, and
        one of a single word may where a folder of the search path is not here."""
        name, value = native.spelled.partition("@")[0], native.value
        if native.operator != "+" or "." in name or not isinstance(value, str | Unresolved) or self.has_group(name):
            return False
        here = self.whole and all(self.launch.files.has_folder(folder) for folder in self.folders if folder)
        return "/" in name or not here

    def has_group(self, path: str) -> bool:
        return any(self.launch.files.has_folder(f"{folder}/{path}" if folder else path) for folder in self.folders)


def _module(launch: Launch) -> PythonFile | None:
    """The script behind ``python -m NAME``, where it is at hand."""
    from rldoctor.formats.python.reader import read_python

    if not _MODULE.fullmatch(launch.entry) or launch.entry.endswith(".py"):
        return None
    try:
        source = launch.files.open(launch.entry.replace(".", "/") + ".py")
        return read_python(source) if source is not None else None
    except InputError:
        return None


def _place(entry: str) -> PurePosixPath | None:
    """The folder of a script, or of a module as its parents name it."""
    if entry.endswith(".py"):
        return PurePosixPath(entry).parent
    return PurePosixPath(*entry.split(".")[:-1]) if _MODULE.fullmatch(entry) else None


def _stem(config: str) -> str:
    return PurePosixPath(config).name.removesuffix(".yaml")


def _text(arguments: Arguments, *keys: str) -> str | None:
    for key in keys:
        value: Any = arguments.value(key)
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
    return path.strip("/") if not path.startswith("/") else path.rstrip("/")
