"""One launch found in a file, as the dialects read it: what is started, with which words, variables and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from rldoctor.case import Unknown
from rldoctor.errors import InputError
from rldoctor.formats.native import Native
from rldoctor.formats.source import Files, Source
from rldoctor.formats.values import Unresolved
from rldoctor.plan.model import Form, Note, Place, RefusedValue, Setting, UnknownOption
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.formats.python.reader import PythonFile
    from rldoctor.formats.shell.arguments import Arguments
    from rldoctor.formats.shell.reader import Word
    from rldoctor.formats.yaml.reader import YamlFile
    from rldoctor.tables.options.optionset import OptionSet

# The options of an owner ("vllm", "trl", ...) and a group of them ("LLM"; None for its main one) in the version at
# hand; None where nothing is known of them.
KnownOptions = Callable[[str, "str | None"], "OptionSet | None"]
VersionOf = Callable[[str], "str | None"]


@dataclass(kw_only=True)
class Launch:
    """``entry`` says what runs: ``vllm serve``, ``swift rlhf`` (console programs with their subcommand),
    ``verl.trainer.main_ppo`` (``python -m``), ``train.py`` (a script as it is named), ``LLM`` or ``GRPOConfig`` (what a
    Python target calls) or ``""`` (a YAML target). ``place`` is where a new option would stand; ``cut_off`` are the
    options that were meant for it and that the shell takes for the next command, ``dropped`` all words of them up to
    a ``=``; ``refused`` are values that its launchers do not take; ``trees`` are the YAML files
    that it names, as far as they were read; ``beside`` are the launches that were
    started in the background before it, and that nobody has waited for. A ``conditional`` one runs only in a case that
    reading does not tell. ``where`` names the machines and pods that it is handed to, None for one that only the run
    tells; one with ``own_ports`` is in a container whose ports are its own."""

    file: str
    line: int
    entry: str
    place: Place | None
    files: Files
    words: tuple[Word, ...] = ()
    variables: dict[str, Native] = field(default_factory=dict)
    process: dict[str, Setting] = field(default_factory=dict)
    tree: YamlFile | None = None
    trees: list[YamlFile] = field(default_factory=list)
    python: PythonFile | None = None
    stdin: Source | None = None
    background: bool = False
    conditional: bool = False
    beside: list[Launch] = field(default_factory=list)
    where: tuple[str | None, ...] = ()
    own_ports: bool = False
    notes: list[Note] = field(default_factory=list)
    cut_off: list[UnknownOption] = field(default_factory=list)
    refused: list[RefusedValue] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    own_config: bool = False
    known: KnownOptions = field(default=lambda owner, group: None)
    version_of: VersionOf = field(default=lambda name: None)
    _options: dict[str, OptionSet | None] = field(default_factory=dict)
    _arguments: dict[tuple[bool, frozenset[str]], Arguments] = field(default_factory=dict)

    def options(self, name: str) -> OptionSet | None:
        """The options known under ``owner`` or ``owner:group`` in the version at hand, or None."""
        if name not in self._options:
            owner, _, group = name.partition(":")
            self._options[name] = self.known(owner, group or None)
        return self._options[name]

    def default(self, name: str, key: str) -> Any:
        """The default of one of them; an Unresolved where it is computed or differs, None where there is none."""
        options = self.options(name)
        if options is None or key not in options:
            return None
        from rldoctor.tables.options.model import MISSING, Computed

        found = options.default(key)
        if isinstance(found, Computed):
            return Unresolved(found.expression, "the framework computes it when it starts")
        if isinstance(found, Unknown):
            return Unresolved("", found.reason)
        return None if found is MISSING else found

    def arguments(self, *, overrides: bool = False, flags: frozenset[str] = frozenset()) -> Arguments:
        """The words as options, positionals and (with ``overrides``) Hydra overrides; ``flags`` take no value."""
        from rldoctor.formats.shell.arguments import arguments

        key = (overrides, flags)
        if key not in self._arguments:
            self._arguments[key] = arguments(self.words, self.file, overrides=overrides, flags=flags, group=self.entry)
        return self._arguments[key]

    def variable(self, name: str) -> Any:
        """The value of an environment variable at this launch, an Unresolved, or None where it is not set."""
        found = self.variables.get(name)
        return None if found is None else found.value

    def miss(self, text: str) -> None:
        """Notes that settings of this launch may stand in what could not be read: defaults are no facts then."""
        self.notes.append(Note(text=text, file=self.file, line=self.line, unread=True))

    def lose_config(self, text: str) -> None:
        """Notes that its configuration is one of its own and not at hand: which keys that has nobody knows."""
        self.own_config = True
        self.miss(text)

    @property
    def missed(self) -> str | None:
        """What may hold settings of this launch and could not be read, or None."""
        return next((note.text for note in self.notes if note.unread), None)

    def yaml(self, name: str, shipped: bool = False) -> YamlFile | None:
        """A YAML file that the launch names, or None (noted) where it is not found or not readable. Of one that is
        ``shipped`` with the framework the values are known as defaults."""
        from rldoctor.formats.yaml.reader import read_yaml

        source = self._open(name, shipped)
        try:
            tree = None if source is None else read_yaml(source)
        except InputError as error:
            self.miss(str(error))
            return None
        if tree is not None and not any(known.source == tree.source for known in self.trees):
            self.trees.append(tree)
        return tree

    def _open(self, name: str, shipped: bool) -> Source | None:
        try:
            source = self.files.open(name)
        except InputError as error:
            self.miss(str(error))
            return None
        if source is None:
            text = f"{name}: named here, not found" + (", taken for the one of the release" if shipped else "")
            self.notes.append(Note(text=text, file=self.file, line=self.line, unread=not shipped))
        return source


def at(native: Native, form: Form | None = None) -> dict[str, Any]:
    """The provenance of a native setting as keyword arguments for a :class:`Setting`."""
    return {
        "file": native.file or None,
        "line": native.line or None,
        "key": native.spelled or native.key,
        "form": form or native.form,
        "path": () if native.form in (Form.YAML, Form.OVERRIDE) else native.path,
        "raw": native.raw or None,
    }
