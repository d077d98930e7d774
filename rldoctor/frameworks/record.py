"""What a framework is to rldoctor: one record, plain data, from which every register derives."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.frameworks.dialect import Dialect
    from rldoctor.frameworks.metrics import Metrics
    from rldoctor.frameworks.tracking import Tracker
    from rldoctor.tables.options.parts import Layout

# A version in a line of a log, as a group of its own.
V = r"(\d+(?:\.\d+)+[\w.+-]*)"


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository whose tags (``tag`` and the version) are releases that the package index does not have.

    ``requirements`` is the file that declares what it needs. ``version_file`` states the version of the newest commit,
    where that is what people install. ``snapshots`` is for a repository whose version never changes: its commits that
    touched that file, each under the version with the commit's day behind it (``0.1.0.dev0+20250401``)."""

    name: str
    tag: str
    requirements: str
    version_file: str | None = None
    snapshots: str | None = None

    @property
    def url(self) -> str:
        return f"https://github.com/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Package:
    """One distribution of a framework. ``name`` is what it is called here, canonical.

    ``modules`` are its import packages, older names too, the present one first. ``distribution`` is what it calls
    itself where a fork kept its parent's name; then ``has`` and ``lacks`` are files of its source, ``requires`` a
    requirement of its metadata, that tell it from the parent. ``extras`` are those that it is installed through,
    ``alternatives`` extras that admit more than the extra they are mapped to. ``published`` says whether the package
    index has it, ``repository`` where its declarations are read else or besides.

    ``symbols`` says that the table of symbols covers it, and that of messages has its every release. Of options and
    symbols, releases from ``since`` on are read; with ``monthly``, of calendar versions, the last of each month.
    ``beside`` are repositories with files that it does not package but people launch from a clone, each with the tag
    of a release there (None where only the newest commit can be had). ``attributes`` are taken from the module by the
    import probe (lazy packages load little before); ``device`` says that the import needs a GPU. ``found`` are packages
    that its build pins to what it finds installed: the index shows what the publisher had."""

    name: str
    modules: tuple[str, ...]
    distribution: str = ""
    has: str = ""
    lacks: str = ""
    requires: str = ""
    extras: tuple[str, ...] = ()
    alternatives: Mapping[str, str] = field(default_factory=dict)
    published: bool = True
    repository: Repository | None = None
    since: str = ""
    symbols: bool = False
    monthly: bool = False
    beside: tuple[tuple[str, str | None], ...] = ()
    attributes: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    device: bool = False
    found: tuple[str, ...] = ()

    @property
    def installed_as(self) -> str:
        """The name of its distribution."""
        return self.distribution or self.name


@dataclass(frozen=True)
class Settings:
    """How a framework prints the settings of a whole launch: a line with ``literal`` in which ``pattern`` matches; its
    first group is where they begin. ``entry`` is the program that prints so, where its keys alone do not tell, ``has``
    what stands in the text besides."""

    literal: str
    pattern: str
    entry: str = ""
    has: str = ""


@dataclass(frozen=True, kw_only=True)
class Words:
    """How a log shows the framework. ``paths`` is an expression over the files of frames, ``texts`` are literals of
    lines; ``versions`` are rows of literal, expression whose first group is the version, and whose version it is.
    ``early`` is said soon after the start, ``stages`` names the stage that a literal announces, ``generated`` is
    the folder of code that it writes while it runs. ``settings`` are the forms in which it prints its
    configuration, ``commands`` rows of a literal and an expression whose first group is the command that it starts."""

    paths: str = ""
    texts: tuple[str, ...] = ()
    versions: tuple[tuple[str, str, str], ...] = ()
    early: tuple[str, ...] = ()
    generated: str = ""
    stages: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[Settings, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What its trainer keeps on a device, as far as no option says it.

    ``whole_logits``: the bytes of a logit and of its gradient where those of a micro batch are held at once unless told
    otherwise, else 0. ``keeps_reference``: the reference model stays on the devices, whole or sharded as the policy.
    ``leaves_device``: the trainer is on the host before the engine wakes. ``shares_weights``: trainer and engine have
    one copy of the weights, and the engine is sized by the framework. ``recomputes``: the strategies under which
    options of their own have activations computed again, whatever the trainer's own says."""

    whole_logits: int = 0
    keeps_reference: bool = False
    leaves_device: bool = False
    shares_weights: bool = False
    recomputes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sync:
    """How new weights reach the engine: ``one_by_one``, each tensor in a call of its own; ``own_names`` for which
    releases the names are those of the parameters and not of a checkpoint (a specifier, empty for all of them, None
    for none)."""

    one_by_one: bool = False
    own_names: str | None = None


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A package that the framework is built over. With ``replaces`` it puts trainers and engines of its own in the
    place of the package's while it runs: what is known of those does not hold. ``mends`` maps a name that the package
    imports, and that another package no longer has, to the framework's releases that put it back. ``keeps_buffers``:
    its workers put a model's buffers back themselves when the package's engine wakes without them."""

    package: str
    replaces: bool = False
    mends: Mapping[str, str] = field(default_factory=dict)
    keeps_buffers: bool = False


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Code of the framework that looks at the settings of a launch before it trains, older places too: a class whose
    fields they are, with the ``method`` that is called on its object, or a function (``Trainer._validate``) that calls
    them ``settings`` (``config``, ``self.config``); where ``name`` is empty, what runs when the module is the program,
    and where it is ``*``, each function of the module, for all of which there are settings. ``before`` the settings get
    their defaults, it sees what is given alone.
    ``{algorithm}`` is the plan's. With ``group`` it sees only launches whose options are of that group: another command
    of the same framework has another class. ``of_object``: what the function calls ``settings`` is an object of the
    framework's argument class. ``command`` is what a parser with several commands calls the one that was given.
    ``makes`` are the classes (``module:Name``) of which it always makes an object with these settings as its fields.
    ``apart`` are fields of the class that name files or code of the launch's own, and methods of it that connect to
    what is not there: where an object of it is made, the first are left out, and the others do nothing. Of what a
    function sees they are settings that may be others by then; where the framework ``fills_in`` what is left to None,
    so may these. ``typed`` says that OmegaConf makes the object, which holds values against its fields' types.
    ``never_by`` are patterns (``fnmatch``) of entries that do not come to it, ``by`` of those that alone do, and
    ``{entry}`` is the module that the launch starts. ``needs`` are settings with the value under which alone the
    framework comes to it."""

    module: str
    name: str = ""
    of_object: bool = False
    before: bool = False
    settings: str = ""
    method: str = ""
    group: str = ""
    command: str = ""
    makes: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    fills_in: bool = False
    typed: bool = False
    never_by: tuple[str, ...] = ()
    by: tuple[str, ...] = ("*",)
    needs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One framework. ``home`` is its folder's module. Beside the record may stand ``dialect`` (and ``serve``) with a
    ``DIALECT``, ``layout`` with ``LAYOUTS``, ``metrics`` with ``METRICS``, ``tracker`` with ``TRACKERS``,
    ``options/NAME.json``, read when needed.

    ``title`` is the name that people write, and that plans carry. ``marks`` are literals of which one stands in each
    launch of its own: in the entry, the words, the YAML or the script. Only those launches import its dialects; it is
    asked about each with None, and without any mark about what nobody else claims. ``over`` is what it is built over.
    ``trains`` is false for an engine. ``programs`` are console programs whose first argument is a command, ``servers``
    expressions over modules and programs that only serve. ``variables`` are prefixes (``VERL_``) and names of
    environment variables that it reads; ``secrets`` options that hold a key, with a name that says so; ``companions``
    distributions whose declarations are read too. ``in_trainer`` is for which releases the engine lives in the trainer
    beside a thread that generates. ``imports`` are the modules that a launch with rollouts imports, older names too:
    ``always``, with an ``asynchronous`` engine, and in its ``server``; ``{algorithm}`` in a name is the plan's.
    ``arguments`` are the modules whose class ``{algorithm}Config`` takes a launch's settings as its fields, older names
    too; ``validations`` what else judges them. ``asked_by`` is the module of ``probes/children/trainers`` that has its
    trainer tell log-probabilities."""

    home: str
    name: str
    title: str
    marks: tuple[str, ...] | None = None
    packages: tuple[Package, ...] = ()
    over: tuple[Layer, ...] = ()
    trains: bool = True
    programs: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    variables: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    companions: tuple[str, ...] = ()
    words: Words = Words()
    memory: Memory = Memory()
    sync: Sync = Sync()
    in_trainer: str | None = None
    imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    validations: tuple[Validation, ...] = ()
    asked_by: str | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """The import packages of all its distributions."""
        return tuple(module for package in self.packages for module in package.modules)

    def dialects(self) -> tuple[Dialect, ...]:
        """How its launches are read: its trainer's dialect, and its server's where it has one."""
        found = (self._part(name) for name in ("dialect", "serve"))
        return tuple(module.DIALECT for module in found if module is not None)

    def layouts(self) -> Mapping[str, Layout]:
        """Where its releases declare their options, by the distribution whose options they are."""
        module = self._part("layout")
        return {} if module is None else module.LAYOUTS

    def metrics(self) -> Metrics | None:
        """The names under which it logs a step, or None where it logs as another framework does."""
        module = self._part("metrics")
        return None if module is None else module.METRICS

    def trackers(self) -> tuple[Tracker, ...]:
        """Where its releases hand the metrics of a step over, in its own process."""
        module = self._part("tracker")
        return () if module is None else module.TRACKERS

    def table(self, owner: str) -> Path:
        """The file with the options of a distribution in all its releases."""
        return self._folder() / "options" / f"{owner}.json"

    def _folder(self) -> Path:
        return Path(str(importlib.import_module(self.home).__file__)).parent

    def _part(self, name: str) -> ModuleType | None:
        module = f"{self.home}.{name}"
        return importlib.import_module(module) if find_spec(module) is not None else None
