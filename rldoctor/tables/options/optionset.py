"""The options of one command in one release, and what can and cannot be said of a name there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cached_property
from typing import Any

from rldoctor.case import Unknown
from rldoctor.tables.options.model import MISSING, Option
from rldoctor.tables.options.nearest import nearest_names


class OptionSet(Mapping[str, Option]):
    """Options by name.

    The mapping holds what is certainly known. ``uncertain`` holds names that some of the releases in question have and
    others do not; ``gap`` is set where part of the options could not be read at all, so that no name can be called
    unknown; ``outside`` where the release as a whole is none that anybody read; ``open`` where the command hands other
    names on; ``rejects`` where it stops at a name it does not know; ``abbreviations`` where its parser completes the
    start of a name; ``validates`` where values are held against their types wherever they are given; ``closed`` where a
    section whose keys are listed has a class behind it, which takes no others. ``source`` says where all of it comes
    from, ``unread`` why it is a table where a source is at hand, ``worded`` is what :meth:`worded` asks.
    """

    def __init__(
        self,
        options: dict[str, Option],
        *,
        source: str,
        uncertain: dict[str, Unknown] | None = None,
        gap: Unknown | None = None,
        outside: Unknown | None = None,
        open_ended: bool = False,
        rejects: bool = True,
        abbreviations: bool = False,
        validates: bool = False,
        closed: bool = False,
        worded: Callable[[Option], Option] | None = None,
    ) -> None:
        self._options = options
        self.source = source
        self.uncertain = uncertain or {}
        self.gap = gap
        self.outside = outside
        self.open = open_ended
        self.rejects = rejects
        self.abbreviations = abbreviations
        self.validates = validates
        self.closed = closed
        self.unread = ""
        self._worded = worded

    def __getitem__(self, name: str) -> Option:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def instead_of(self, unread: str) -> OptionSet:
        """The same in the place of a source at hand that cannot be read, which may declare further names."""
        found = copy(self)
        found.unread, found.gap = unread, self.gap or Unknown(reason=unread)
        return found

    def spelled(self, name: str) -> str | None:
        """``name`` as the set spells it: ``--max-model-len`` is ``max_model_len``, ``-tp`` stays; None if not there."""
        bare = name[2:] if name.startswith("--") else name
        for candidate in (bare, bare.replace("-", "_")):
            if candidate in self._options or candidate in self.uncertain:
                return candidate
        return None

    def known(self, name: str) -> bool | Unknown:
        """True where the release has the option or a section of that name, False where it certainly has neither."""
        own = self.spelled(name)
        if own is not None:
            return True if own in self._options else self.uncertain[own]
        if name in self._sections:
            return True
        above = self._open_above(name)
        if above is not None:
            return self.uncertain.get(above) or Unknown(reason=f"{above} takes any key")
        if self.open:
            return Unknown(reason="other names are handed on to another function")
        return self.gap or False

    def doubtful(self, name: str) -> Unknown | None:
        """Why nobody can say whether the release has the option; None where it is known, and where what hands names on
        takes any."""
        own = self.spelled(name)
        if own is not None:
            return self.uncertain.get(own)
        return self.gap if self.known(name) is self.gap else None

    def get_option(self, name: str) -> Option | None:
        """The option under ``name`` in any of its spellings; another spelling's option is the one it stands for."""
        own = self.spelled(name)
        option = self._options.get(own) if own is not None else None
        if option is not None and option.alias is not None:
            return self._options.get(option.alias, option)
        return option

    def worded(self, option: Option) -> Option:
        """One of the set's options with all the words that code is known to take for it. What reads a source tree
        looks through it for them when they are asked for."""
        return self._worded(option) if self._worded is not None else option

    def default(self, name: str) -> Any:
        """The default: a plain value, ``Computed``, ``MISSING`` where the option has none, or :class:`Unknown`."""
        option = self.get_option(name)
        if option is not None:
            return option.default
        known = self.known(name)
        return known if isinstance(known, Unknown) else Unknown(reason=f"{name} is no option of {self.source}")

    def addable(self, name: str) -> bool | Unknown:
        """Whether Hydra takes ``+name=value`` for a plain value: nothing stands at the key, and no class behind its
        section refuses it. (Lists and mappings it takes anywhere.)"""
        option = self._options.get(name)
        if option is not None:
            if option.added or option.default is None:  # Hydra appends where it finds null
                return True
            if isinstance(option.default, str) and "${" in option.default:
                return Unknown(reason=f"{name} is what {option.default} gives")
            return False
        if name in self._sections:
            return False
        section = name.rpartition(".")[0]
        if f"{section}._target_" in self._options and self._options[f"{section}._target_"].default:
            return self.gap or False
        return Unknown(reason=f"nothing checks the keys of {section or 'the root'}")

    def completed(self, name: str) -> str | None:
        """The option that the command's parser takes the abbreviation ``name`` for: the only one that starts so."""
        found = self.starting(name)
        return found[0] if len(found) == 1 else None

    def starting(self, name: str) -> list[str]:
        """The options that ``name`` is the start of for the command's parser, which refuses it where they are several;
        none for a parser that completes nothing."""
        if not self.abbreviations:
            return []
        bare = name.removeprefix("--").replace("-", "_")
        return sorted({self._options[o].alias or o for o in self._options if o.startswith(bare) and o[0] != "-"})

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """The real names that ``name`` was most likely meant to be, likeliest first: certain ones, else those of some
        of the releases in question."""
        names = [o for o, option in self._options.items() if not option.deprecated and option.alias is None]
        bare = name.removeprefix("--").replace("-", "_")
        return nearest_names(bare, names, count) or nearest_names(bare, self.uncertain, count)

    @property
    def required(self) -> tuple[str, ...]:
        """The options that have to be given."""
        return tuple(o.name for o in self._options.values() if o.required and o.default is MISSING)

    @cached_property
    def _sections(self) -> frozenset[str]:
        found: set[str] = set()
        for name in self._options:
            while "." in name:
                name = name.rpartition(".")[0]
                found.add(name)
        return frozenset(found)

    def declared_above(self, name: str) -> str | None:
        """The option above ``name`` under which a framework takes any key, where the release certainly has it and
        ``name`` is no key that it declares there."""
        if name in self._sections or self.spelled(name) is not None:
            return None
        above = self._open_above(name)
        return above if above in self._options else None

    def _open_above(self, name: str) -> str | None:
        while "." in name:
            name = name.rpartition(".")[0]
            option = self._options.get(name)
            if name in self.uncertain:
                return name
            if option is not None and option.open:
                return None if self.closed and name in self._sections else name
        return None
