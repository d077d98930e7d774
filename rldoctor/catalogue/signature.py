"""One way a log shows a pattern, as data: texts to look for, what must hold around them, what to say, what helps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from rldoctor.case import Case
from rldoctor.case.lookup import installed_within
from rldoctor.model import Finding, Fix, Severity
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.logs.model import LogEvent


class Role(str, Enum):
    """What a matched log line is: the first cause, what a cause elsewhere brings about, a message that only passes a
    failure on, or something that adds weight to a finding of the same code and is none alone."""

    CAUSE = "cause"
    CASCADE = "cascade"
    WRAPPER = "wrapper"
    CONFIRMATION = "confirmation"


LogJudge = Callable[[Case, "LogEvent"], Iterator[Finding]]
# What a row asks beyond texts and releases; a mapping holds and gives further words for ``says`` and ``fixes``.
Condition = Callable[[Case, "LogEvent"], "bool | Mapping[str, str] | None"]
Fixes = tuple[Fix, ...] | Callable[[Case, "LogEvent", Mapping[str, str]], Iterable[Fix]]
# How much a line weighs may depend on whether it ended something.
Weight = Severity | Callable[["LogEvent"], Severity]

# Shorter literals are found everywhere and make the search of large logs slow.
SHORTEST_LITERAL = 6
# Words that every text may use: the line, the first line of its exception (of the line, where it has none), the
# literal that was found, how often, the ranks that wrote it, and the place in the user's own code that the exception
# came through.
GIVEN = ("line", "error", "literal", "count", "ranks", "place")

_OPTIONAL = re.compile(r"\[\[(.*?)\]\]")
_WORD = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")
_MOST_RANKS = 8
_GROUP = re.compile(r"\(\?P<(\w+?)(?:_\d)?>")
_AGAIN = re.compile(r"_\d$")
# Most runs of the program meet few of the hundreds of rows.
_compiled = cache(re.compile)


@dataclass(frozen=True)
class Signature:
    """One way a log shows a pattern. ``literals`` are looked for as they stand, ``unless`` are texts whose presence
    in the line or its exception rules the pattern out; ``silent`` ones also count in a run that ends well, ``general``
    ones are said where no other of the check is; ``behind`` ones are also asked about every line that others than the
    run wrote behind its last sign of life, and ``lost`` ones tell of a machine that is gone, for which others waited.
    ``row`` is what the signature was declared with, None where a function judges."""

    literals: tuple[str, ...]
    judge: LogJudge
    role: Role = Role.CAUSE
    unless: tuple[str, ...] = ()
    silent: bool = False
    general: bool = False
    behind: bool = False
    lost: bool = False
    row: Row | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A signature that is data. Parameters: :meth:`rldoctor.catalogue.check.Check.signature`."""

    says: str
    pattern: str | None = None
    details: tuple[str, ...] = ()
    exception: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    when: Condition | None = None
    fixes: Fixes = ()
    severity: Weight = Severity.ERROR
    url: str | None = None

    def __post_init__(self) -> None:
        known = {*GIVEN, *(name for p in (self.pattern, *self.details) if p is not None for name in _GROUP.findall(p))}
        unknown = [name for name in dict.fromkeys(m[1] for m in _WORD.finditer(self.says)) if name not in known]
        if unknown and self.when is None:
            raise ValueError(f"{self.says!r} uses {', '.join(unknown)}, which no pattern names")

    def message(self, case: Case, event: LogEvent) -> tuple[str, tuple[Fix, ...]] | None:
        """What to say and what helps; None where the event is not what the row describes."""
        words = self._words(case, event)
        said = None if words is None else fill(self.says, words)
        if words is None or said is None:
            return None
        fixes = self.fixes if isinstance(self.fixes, tuple) else tuple(self.fixes(case, event, words))
        return said, tuple(_filled(fix, words) for fix in fixes)

    def describes(self, case: Case, event: LogEvent) -> bool:
        """Whether the event is what the row is about; the releases and ``when`` are asked last."""
        return self._found(case, event) is not None

    def _found(self, case: Case, event: LogEvent) -> dict[str, str] | None:
        """The words of the pattern and of the condition; None where one of them does not hold."""
        if self.exception and (event.exception is None or not _is_of(event.exception.type, self.exception)):
            return None
        words: dict[str, str] = {}
        if self.pattern is not None:
            found = _compiled(self.pattern).search(event.text)
            if found is None:
                return None
            words |= _named(found)
        if not all(installed_within(case, name, within) for name, within in self.versions.items()):
            return None
        held = self.when(case, event) if self.when is not None else True
        if not held:
            return None
        return {**words, **held} if isinstance(held, Mapping) else words

    def _words(self, case: Case, event: LogEvent) -> dict[str, str] | None:
        found = self._found(case, event)
        if found is None:
            return None
        error = (str(event.exception) if event.exception is not None else event.line).strip() or event.line
        words = {
            "line": event.line.strip()[:300],
            "error": error.splitlines()[0][:300] if error else "",
            "literal": event.literal,
            "count": str(event.count),
        }
        if event.ranks:
            more = len(event.ranks) - _MOST_RANKS
            words["ranks"] = ", ".join(event.ranks[:_MOST_RANKS]) + (f" and {more} more" if more > 0 else "")
        if event.exception is not None and (frame := event.exception.user_frame) is not None:
            words["place"] = f"{frame.file}:{frame.line}"
        for detail in self.details:
            words |= _named(_compiled(detail).search(event.text))
        return words | found


def fill(text: str, words: Mapping[str, str]) -> str | None:
    """``text`` with its ``{words}``. A part in ``[[ ]]`` goes where one of its words is missing, or gives way to what
    stands behind ``||`` in it; ``{word|default}`` has a default. None where a word is missing elsewhere."""

    def optional(match: re.Match[str]) -> str:
        part, _, otherwise = match[1].partition("||")
        found = fill(part, words)
        return otherwise if found is None else found

    shortened = _OPTIONAL.sub(optional, text)
    if any(m[1] not in words and m[2] is None for m in _WORD.finditer(shortened)):
        return None
    return _WORD.sub(lambda m: words.get(m[1], m[2] or ""), shortened)


def _filled(fix: Fix, words: Mapping[str, str]) -> Fix:
    """A fix with the words that it names; braces that name none stay as they are."""

    def known(text: str) -> str:
        return _WORD.sub(lambda m: words.get(m[1], m[2] if m[2] is not None else m[0]), text)

    return replace(fix, title=known(fix.title), commands=tuple(known(command) for command in fix.commands))


def _named(found: re.Match[str] | None) -> dict[str, str]:
    """The words that an expression found. A group called ``port_2`` is another place where ``port`` may stand."""
    groups = found.groupdict().items() if found is not None else ()
    first = sorted(groups, key=lambda group: _AGAIN.search(group[0]) is None)
    return {_AGAIN.sub("", name): value for name, value in first if value is not None}


def _is_of(raised: str, types: Iterable[str]) -> bool:
    """Whether an exception's printed type is one of the names, with or without its module."""
    return any(raised == name or raised.endswith(f".{name}") for name in types)
