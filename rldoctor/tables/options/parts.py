"""The kinds of place in which frameworks declare options, and what a group of options is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rldoctor.records import dataclass


@dataclass(frozen=True)
class ClassPart:
    """Fields of a class. ``places`` are (path, class) alternatives, the first that exists counts; ``requires`` is a
    file without which the release does not have the part; without ``inherited`` only the class's own fields count."""

    places: tuple[tuple[str, str], ...]
    nested: bool = False
    requires: str | None = None
    inherited: bool = True


@dataclass(frozen=True)
class FolderPart:
    """Fields of every class whose name ends in ``suffix``, in the files called ``file`` below ``folder``."""

    folder: str
    file: str
    suffix: str


@dataclass(frozen=True)
class ParserPart:
    """``add_argument`` calls of a function, or of the ``__main__`` block where it is None."""

    places: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class SignaturePart:
    """Parameters of a function."""

    places: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HydraPart:
    """A composed configuration; ``needs`` is a file without which the choices do not exist in that release. With
    ``choices`` only what they change counts, so that the group includes the one without them."""

    folders: tuple[str, ...]
    name: str
    choices: tuple[tuple[str, str], ...] = ()
    needs: str | None = None


@dataclass(frozen=True)
class OverlayPart:
    """One YAML file by itself, without what its defaults list brings in."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class ExamplesPart:
    """The keys of the example files below ``folder`` whose name holds one of ``words``: what a framework reads without
    declaring it. They have no default."""

    folder: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class MentionPart:
    """Names that a release still accepts although no field has them: known where the file quotes them."""

    path: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """The names among which code looks up an option's value. ``places`` are ``path:NAME`` alternatives, a list, the
    keys of a dictionary, a ``Literal`` or an enumeration (``Class.NAME`` within a class or function), ``registered``
    ``folder:decorator``, ``compared`` ``path:expression`` for what the expression is compared with, and ``files``
    folders whose YAML files have the names. ``besides`` are taken, too. Any other word is refused where the listing is
    ``closed``; else a launch may register its own."""

    places: tuple[str, ...] = ()
    registered: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()
    closed: bool = False


Part = ClassPart | FolderPart | ParserPart | SignaturePart | HydraPart | OverlayPart | ExamplesPart | MentionPart


@dataclass(frozen=True)
class Group:
    """The options of one command or class.

    ``parts`` are read from the source, later ones win. ``includes`` are other groups that come before them,
    ``framework:group`` for those of another framework, with ``?`` in front where not every release has one. ``open``
    says that other names are handed on to something else, and so cannot be called unknown; ``rejects`` that the
    framework stops at a name it does not know; ``abbreviations`` that its parser completes the start of a name;
    ``validates`` that values are held against their types wherever they are given, not only by a command's parser."""

    parts: tuple[Part, ...] = ()
    includes: tuple[str, ...] = ()
    open: bool = False
    rejects: bool = True
    abbreviations: bool = False
    validates: bool = False

    @property
    def closed(self) -> bool:
        """Whether classes declare all keys of its sections: none of them comes from files, which tell no more than what
        stands in them."""
        nested = any(isinstance(part, ClassPart) and part.nested for part in self.parts)
        return nested and all(isinstance(part, ClassPart | FolderPart) for part in self.parts)


@dataclass(frozen=True)
class Layout:
    """A framework: its import packages, the files that tell its source from others', its groups (the first is
    meant when none is named), the folders of a repository in which its packages lie, and the names that an option of
    any group (``group:option`` for one of that group alone) is looked up among. Below the folders ``compared`` all code
    is read for what it compares options with."""

    packages: tuple[str, ...]
    markers: tuple[str, ...]
    groups: dict[str, Group]
    roots: tuple[str, ...] = ("",)
    names: Mapping[str, Listing] = field(default_factory=dict)
    compared: tuple[str, ...] = ()

    @property
    def main(self) -> str:
        """The group that is meant when none is named."""
        return next(iter(self.groups))


def class_part(*places: str, nested: bool = False, requires: str | None = None, inherited: bool = True) -> ClassPart:
    """A part from ``path:Class`` texts, the first of which that exists counts."""
    split = tuple((path, name) for path, _, name in (place.partition(":") for place in places))
    return ClassPart(split, nested, requires, inherited)


def fields_of(*places: str, includes: tuple[str, ...] = (), command: bool = False) -> Group:
    """A group that is one class; as a ``command`` its options are parsed with abbreviations."""
    return Group((class_part(*places),), includes, abbreviations=command)


def parameters_of(*places: str, includes: tuple[str, ...] = (), open_ended: bool = False) -> Group:
    """A group that is the parameters of a function, from ``path:function`` texts."""
    split = tuple((path, name) for path, _, name in (place.partition(":") for place in places))
    return Group((SignaturePart(split),), includes, open=open_ended)


# What the arguments of most trainers inherit.
TRAINING_ARGUMENTS = ("transformers:TrainingArguments",)
