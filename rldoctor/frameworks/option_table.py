"""The dated tables: which options each framework's releases have, as the generator read them from their source."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
from packaging.version import Version

from rldoctor.case import Unknown
from rldoctor.frameworks.layouts import file_of, layout_of
from rldoctor.tables.options.combine import combined
from rldoctor.tables.options.model import INHERITED, MISSING, Computed, Option
from rldoctor.tables.options.optionset import OptionSet
from rldoctor.versions import parsed

Span = tuple[int, int]


class OptionTable:
    """One framework's table. ``versions`` are the releases read, oldest first; ``generated`` is the day.

    A release that was not read but lies between two that were is answered where both agree. A release older or newer
    than the table is :class:`Unknown` in every answer. Version None stands for every release in the table: what all of
    them have is known, what none has is not, the rest is unknown."""

    def __init__(self, framework: str, content: Mapping[str, Any]) -> None:
        self.framework = framework
        self.layout = layout_of(framework)
        self.generated: str = content["generated"]
        self.versions: list[str] = content["versions"]
        # Per group and option the ranges, or the name of the group that has the same ones.
        self._groups: dict[str, dict[str, list[dict[str, Any]] | str]] = content["groups"]
        self._index = {version: position for position, version in enumerate(self.versions)}
        self._parsed: list[Version] = []
        self._read: dict[tuple[str, Span | Unknown], tuple[dict[str, Option], dict[str, Unknown]]] = {}

    @staticmethod
    def load(framework: str) -> OptionTable:
        """The table that is shipped for ``framework``.

        Raises ``KeyError`` for a framework that has none."""
        return _load(framework)

    def at(self, version: str | None, group: str | None = None, others: Mapping[str, str] | None = None) -> OptionSet:
        """The options of ``group`` (the framework's main one if None) in ``version``.

        ``others`` gives the versions of frameworks whose options the group inherits (``{"transformers": "4.57.1"}``);
        one that is not given counts as unknown. Raises ``KeyError`` for a group that the framework does not have at
        any time."""
        name = group or self.layout.main
        span = self._span(version)
        own, uncertain = self._own(name, span)

        def include(framework: str | None, inner: str) -> OptionSet:
            if framework is None:
                return self.at(version, inner, others)
            return OptionTable.load(framework).at((others or {}).get(framework), inner, others)

        return combined(
            self.layout,
            name,
            own,
            include,
            source=f"{self.framework} {version or 'of any version'} (table of {self.generated})",
            uncertain=uncertain,
            outside=span if isinstance(span, Unknown) else None,
        )

    def known(self, name: str, version: str | None, group: str | None = None) -> bool | Unknown:
        """Whether ``version`` has the option ``name``."""
        return self.at(version, group).known(name)

    def default(self, name: str, version: str | None, group: str | None = None) -> Any:
        """The default of ``name`` in ``version``, as :meth:`OptionSet.default` gives it."""
        return self.at(version, group).default(name)

    def nearest(self, name: str, version: str | None, group: str | None = None, count: int = 3) -> list[str]:
        """The options of ``version`` that ``name`` was most likely meant to be."""
        return self.at(version, group).nearest(name, count)

    def removed(self, name: str, group: str | None = None) -> str | None:
        """The first release read that no longer has ``name``; None while the newest has it, or none ever did."""
        ranges = self._ranges(name, group)
        return ranges[-1].get("until") if ranges else None

    def around(self, name: str, version: str | None, group: str | None = None) -> tuple[str | None, str | None]:
        """The first release after ``version`` that has ``name``, and the last one up to it that took ``name`` away.

        A Hydra key that only Python declares does not count: no configuration has it."""
        at = parsed(version or "")
        ranges = [found for found in self._ranges(name, group) if not found.get("added")]
        if at is None:
            return None, None
        since = [Version(found["since"]) for found in ranges if "since" in found and Version(found["since"]) > at]
        until = [Version(found["until"]) for found in ranges if "until" in found and Version(found["until"]) <= at]
        return str(min(since)) if since else None, str(max(until)) if until else None

    def renamed(self, name: str, version: str | None, group: str | None = None) -> str | None:
        """What ``version`` calls the option that other releases call ``name``, where the releases show it: the one came
        when the other went, both have one default and type, and their names end alike. None where they do not."""
        since, until = self.around(name, version, group)
        own = self._groups.get(self._home(name, group), {})
        before = [found for found in self._ranges(name, group) if not found.get("added")]
        gone = next((found for found in before if until is not None and found.get("until") == until), None)
        come = next((found for found in before if since is not None and found.get("since") == since), None)
        matches = []
        for other in own:
            for found in self._ranges(other, group) if _end(other) == _end(name) and other != name else ():
                follows = gone is not None and found.get("since") == until and _same(gone, found)
                precedes = come is not None and found.get("until") == since and _same(come, found)
                if (follows or precedes) and self.known(other, version, group) is True:
                    matches.append(other)
        return matches[0] if len(matches) == 1 else None

    def ends(self) -> frozenset[str]:
        """The last parts of the names of all options, of any group in any release."""
        return frozenset(_end(name) for own in self._groups.values() for name in own)

    def has_group(self, group: str, version: str | None) -> bool | Unknown:
        """Whether ``version`` has the command or class at all."""
        span = self._span(version)
        if isinstance(span, Unknown):
            return span
        own, uncertain = self._own(group, span)
        return bool(own) or (Unknown(reason=f"{group} came or went around {version}") if uncertain else False)

    @property
    def _versions(self) -> list[Version]:
        if not self._parsed:
            self._parsed = [Version(version) for version in self.versions]
        return self._parsed

    def _ranges(self, name: str, group: str | None) -> list[dict[str, Any]]:
        own = self._groups.get(self._home(name, group), {})
        spelled = _spelled(name, own)
        return self._followed(spelled, own.get(spelled, []))

    def _home(self, name: str, group: str | None) -> str:
        """The group that declares ``name``: the group itself, or one that it includes of the same framework."""
        group = group or self.layout.main
        own, description = self._groups.get(group, {}), self.layout.groups.get(group)
        if _spelled(name, own) in own or description is None:
            return group
        below = [inner.removeprefix("?") for inner in reversed(description.includes) if ":" not in inner]
        homes = (self._home(name, inner) for inner in below)
        return next(
            (home for home in homes if _spelled(name, self._groups.get(home, {})) in self._groups.get(home, {})), group
        )

    def _followed(self, name: str, ranges: list[dict[str, Any]] | str) -> list[dict[str, Any]]:
        while isinstance(ranges, str):
            ranges = self._groups[ranges][name]
        return ranges

    def _span(self, version: str | None) -> Span | Unknown:
        """The positions of the releases that ``version`` may equal: one, or the two around it."""
        last = len(self.versions) - 1
        if version is None:
            return 0, last
        if version in self._index:
            return self._index[version], self._index[version]
        given = parsed(version)
        if given is None:
            return Unknown(reason=f"{version!r} is no version")
        wanted = Version(given.public)
        public = [Version(read.public) for read in self._versions]
        first = bisect_left(public, wanted)
        if first <= last and public[first] == wanted:  # builds of one release (`1.0+cu129`), commits of one version
            return first, max(i for i in range(first, last + 1) if public[i] == wanted)
        if first == 0 or first > last:
            return Unknown(
                reason=f"the options of {self.framework} {version} are not known (read were {self.versions[0]} to "
                f"{self.versions[-1]}, on {self.generated})"
            )
        return first - 1, first

    def _own(self, group: str, span: Span | Unknown) -> tuple[dict[str, Option], dict[str, Unknown]]:
        """The group's own options that hold all over ``span``, and those that hold in a part of it only."""
        if (group, span) not in self._read:
            self._read[group, span] = self._options(group, span)
        return self._read[group, span]

    def _options(self, group: str, span: Span | Unknown) -> tuple[dict[str, Option], dict[str, Unknown]]:
        last = len(self.versions) - 1
        low, high = (0, last) if isinstance(span, Unknown) else span
        options: dict[str, Option] = {}
        uncertain: dict[str, Unknown] = {}
        for name, ranges in self._groups.get(group, {}).items():
            here = []
            covered = 0
            for entry in self._followed(name, ranges):
                since = self._index[entry["since"]] if "since" in entry else 0
                until = self._index[entry["until"]] if "until" in entry else last + 1
                overlap = min(until, high + 1) - max(since, low)
                if overlap > 0:
                    here.append(entry)
                    covered += overlap
            whole = covered > high - low and not isinstance(span, Unknown)
            if here and here[-1].get("type") == INHERITED and not whole:
                continue  # the option is there, its names are not known
            if here and isinstance(span, Unknown):
                uncertain[name] = span
            elif here and not whole:
                uncertain[name] = Unknown(reason=f"not every {self.framework} release in question has {name}")
            elif here:
                options[name] = _merged(name, here)
        return options, uncertain


def _spelled(name: str, own: Mapping[str, Any]) -> str:
    return name if name in own else name.removeprefix("--").replace("-", "_")


def _merged(name: str, entries: list[dict[str, Any]]) -> Option:
    """One option from the ranges that apply: what they agree in, the newest for the rest; a default in which they
    differ is unknown."""
    options = [decoded(name, entry) for entry in entries]
    newest = options[-1]
    if len(options) == 1:
        return newest
    same_alias = all(option.alias == newest.alias for option in options)
    merged = replace(
        newest,
        alias=newest.alias if same_alias else None,
        required=all(o.required for o in options),
        names=newest.names if all(o.names == newest.names for o in options) else None,
    )
    if all(option.default == newest.default for option in options):
        return merged
    changed = ", ".join(entry["since"] for entry in entries if "since" in entry)
    return replace(merged, default=Unknown(reason=f"the default of {name} changed with {changed}"), choices=None)


def decoded(name: str, entry: Mapping[str, Any]) -> Option:
    """The option that a range of the table describes."""
    default: Any = MISSING
    if "default" in entry:
        default = entry["default"]
    elif "computed" in entry:
        default = Computed(entry["computed"])
    choices = entry.get("choices")
    return Option(
        name,
        default,
        entry.get("type") or (type(default).__name__ if default is not None and "default" in entry else ""),
        tuple(choices) if choices is not None else None,
        entry.get("enforced", False),
        entry.get("required", False),
        entry.get("deprecated", False),
        entry.get("added", False),
        entry.get("alias"),
        tuple(entry["names"]) if "names" in entry else None,
        entry.get("closed", False),
        entry.get("count"),
        entry.get("since"),
        entry.get("until"),
    )


def encoded(option: Option) -> dict[str, Any]:
    """The option as the table keeps it: only what differs from the usual."""
    entry: dict[str, Any] = {}
    if isinstance(option.default, Computed):
        entry["computed"] = option.default.expression
    elif option.default is not MISSING:
        entry["default"] = option.default
    default = dict if isinstance(option.default, dict) else type(option.default)  # one of a file knows its lines
    if option.type and not ("default" in entry and default.__name__ == option.type):
        entry["type"] = option.type
    if option.choices is not None:
        entry["choices"] = list(option.choices)
    if option.names is not None:
        entry["names"] = list(option.names)
    for flag in ("enforced", "required", "deprecated", "added", "closed"):
        if getattr(option, flag):
            entry[flag] = True
    if option.alias is not None:
        entry["alias"] = option.alias
    if option.count is not None:
        entry["count"] = option.count
    return entry


def default_number(framework: str, version: str, group: str, name: str) -> float | None:
    """The number that an option has where nobody gives it; None where it has none or nobody knows it."""
    default = OptionTable.load(framework).default(name, version, group)
    return default if isinstance(default, int | float) and not isinstance(default, bool) else None


def declared_choices(framework: str, version: str, group: str | None, name: str) -> tuple[Any, ...]:
    """The values that a release declares for an option or looks it up among; none where nobody knows any."""
    try:
        option = OptionTable.load(framework).at(version, group).get_option(name)
    except KeyError:
        return ()
    return (*(option.choices or ()), *(option.names or ())) if option is not None else ()


@cache
def _load(framework: str) -> OptionTable:
    layout_of(framework)  # a KeyError for what has none
    return OptionTable(framework, msgspec.json.decode(file_of(framework).read_bytes()))


def _end(name: str) -> str:
    """The last part of a dotted name; sections that are joined by underscores count as such."""
    return name.rpartition(".")[2].removeprefix("--").replace("-", "_")


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two declarations have the same default and type."""
    return all(one.get(key) == other.get(key) for key in ("default", "computed", "type", "choices"))
