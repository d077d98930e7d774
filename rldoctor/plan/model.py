"""The rollout plan: what one launch will really run, in canonical names, each value with where it came from."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any

from rldoctor import reads
from rldoctor.plan.vocabulary import plain
from rldoctor.records import dataclass


class Source(str, Enum):
    """Where a setting's value came from."""

    GIVEN = "given"
    """It stands in a launch file."""
    DEFAULT = "default"
    """The framework's own default in the plan's version."""
    DERIVED = "derived"
    """Computed from other settings as the framework does; ``how`` says how."""
    ENVIRONMENT = "environment"
    """An environment variable set by the launch file or by the shell that starts it."""


class Form(str, Enum):
    """How a native setting is written, which is how a fix has to write it."""

    OPTION = "option"
    """A command-line option, ``--key value`` or ``--key=value``."""
    OVERRIDE = "override"
    """A Hydra or OmegaConf override, ``a.b.c=value``."""
    YAML = "yaml"
    """A value in a YAML file, under its dotted path."""
    KEYWORD = "keyword"
    """A keyword argument (or dictionary entry) in Python source."""
    VARIABLE = "variable"
    """An environment variable."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of a plan. ``value`` is JSON-able, in the vocabulary's type and unit; where it could not be known it
    is None and ``unknown`` says why. ``key`` is the native name; ``form``, ``path`` and ``raw`` say how it is written
    (``path`` leads into a JSON or dictionary value of ``key``)."""

    value: Any = None
    source: Source = Source.GIVEN
    file: str | None = None
    line: int | None = None
    key: str | None = None
    how: str | None = None
    unknown: str | None = None
    form: Form | None = None
    path: tuple[str, ...] = ()
    raw: str | None = None


@dataclass(frozen=True, kw_only=True)
class Given:
    """One native setting that stands in the launch's files; ``option`` is the canonical name it was understood as,
    ``spelled`` an override's name as Hydra takes it, with the ``+``, ``++`` or ``~`` before it."""

    key: str
    value: Any = None
    file: str
    line: int
    form: Form
    option: str | None = None
    unknown: str | None = None
    spelled: str = ""

    @property
    def field(self) -> str:
        """The name of the field that takes it in an argument class: ``max_steps`` of ``--max-steps``."""
        return self.key.rpartition(".")[2].lstrip("-").replace("-", "_")

    @property
    def path(self) -> str:
        """The names of the fields that lead to it from an argument class: ``trainer.max_steps``."""
        return self.key.lstrip("-").replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class UnknownOption:
    """A native option that this version of the framework does not know; ``nearest`` holds real names, best first.
    ``owner`` says whose options were looked at; ``ignored`` that the framework goes on without it in place of refusing,
    ``why`` where it is a known option that this version does not apply; ``since`` the release that brings it, ``until``
    the one that took it away; ``renamed`` this version's name for it, where tables show both for one meaning; ``exact``
    that its parser takes a name as it is declared alone, with its dashes or underscores; ``ambiguous`` that it is the
    start of all in ``nearest``, of which a parser that completes names takes none; ``chosen_by`` the words by which the
    launch would choose what has the option: another configuration, another command."""

    key: str
    file: str
    line: int
    form: Form
    nearest: tuple[str, ...] = ()
    owner: str = ""
    ignored: bool = False
    why: str = ""
    since: str | None = None
    until: str | None = None
    renamed: str | None = None
    exact: bool = False
    ambiguous: bool = False
    chosen_by: str = ""


@dataclass(frozen=True, kw_only=True)
class RefusedValue:
    """A value that a known option of this version does not take. ``accepted`` holds what it takes where it takes
    nothing else, the likeliest first; ``takes`` is the type in words where it takes a type; ``option`` the canonical
    name that the option was understood as; ``why`` says it all where nothing refuses it, and the value is still not
    what is meant."""

    key: str
    value: str
    file: str
    line: int
    form: Form
    owner: str
    accepted: tuple[Any, ...] = ()
    takes: str = ""
    option: str | None = None
    why: str = ""


LONGEST_NOTE = 600


@dataclass(frozen=True, kw_only=True)
class Note:
    """What the reader should know of how the plan came about: an impossible value, an option given twice, a file not
    found. ``unread`` says that settings may stand in what could not be read. One that quotes a whole script is cut."""

    text: str
    file: str | None = None
    line: int | None = None
    unread: bool = False

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_NOTE:
            object.__setattr__(self, "text", f"{self.text[: LONGEST_NOTE - 2]} …")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a launch's options stand, so that a new one can join them. ``group`` names the call of a ``KEYWORD``
    place."""

    form: Form
    file: str
    line: int
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class RolloutPlan:
    """One launch. ``settings`` maps canonical names (see :mod:`rldoctor.plan.vocabulary`) to their settings.

    ``unset`` names what the framework can set and this launch does not, with no default known. ``unread`` holds the
    given native settings that no rule understood and that may concern the plan; ``beside`` counts those known not to.
    ``undeclared`` are the options of which nobody can say whether the release has them, with the reason; ``outside``
    says of which releases, trainer's or engine's, nobody knows any.
    ``place`` is where a new setting would stand, ``places`` the calls of a Python script that take settings.
    ``server`` is the rollout server's own launch where the same file starts it; its engine settings are merged here.
    ``group`` is the ``owner:group`` of the options that its command takes, empty where that is not known; ``cells`` are
    the first line and the number of each code cell, where ``file`` is a notebook."""

    framework: str
    file: str
    entry: str
    line: int = 1
    version: str | None = None
    dialect: str = ""
    role: str = "trainer"
    settings: dict[str, Setting] = field(default_factory=dict)
    given: tuple[Given, ...] = ()
    unread: tuple[Given, ...] = ()
    beside: int = 0
    unknown: tuple[UnknownOption, ...] = ()
    undeclared: dict[str, str] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    refused: tuple[RefusedValue, ...] = ()
    unset: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    place: Place | None = None
    places: tuple[Place, ...] = ()
    files: tuple[str, ...] = ()
    server: RolloutPlan | None = None
    group: str = ""
    cells: tuple[tuple[int, int], ...] = ()

    def get(self, name: str) -> Setting | None:
        """The setting under a canonical name, or None where the plan has none."""
        setting = self.settings.get(name)
        why = None
        if setting is not None and setting.unknown is not None:
            why = f"{setting.key or plain(name)} cannot be read from the launch: {setting.unknown}"
        reads.note(f"plan.{self.role}.{name}", why)
        return setting

    def value(self, name: str, default: Any = None) -> Any:
        """The value under a canonical name; ``default`` where it is absent or null. What is given and cannot be read is
        no default: a judgement that would take it so ends here, with :class:`rldoctor.reads.NotKnown`."""
        setting = self.get(name)
        given = setting is not None and setting.unknown is not None and setting.source is not Source.DEFAULT
        if given and default is not None:
            reads.end(f"plan.{self.role}.{name}")
        return default if setting is None or setting.value is None else setting.value

    def usual(self, name: str, default: Any) -> Any:
        """Like :meth:`value`, but None where even the default is not known: what the launch leaves out may stand in
        what could not be read."""
        setting = self.get(name)
        if setting is None:  # no release says what it is where it is left out, which it need not be
            return None if any(note.unread for note in self.notes) else default
        hidden = setting.unknown is not None and setting.source is Source.DEFAULT
        return None if hidden else self.value(name, default)
