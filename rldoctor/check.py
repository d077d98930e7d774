"""What a check is: one code, its document, and detectors that judge facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor.case import Case
from rldoctor.model import Evidence, Finding, Fix, Grade, Severity

if TYPE_CHECKING:
    from rldoctor.logs.model import LogEvent, LogRun


@dataclass(frozen=True)
class Reach:
    """Yielded by a detector: what it looked at, so that a pass can say how far it reached."""

    text: str


class NotApplicable(Exception):
    """Raised by a detector whose question does not arise here; the message is the reason."""


class NotChecked(Exception):
    """Raised by a detector that misses a fact its ``needs`` could not name; ``how`` says what would supply it."""

    def __init__(self, reason: str, how: str | None = None) -> None:
        super().__init__(reason)
        self.how = how


Judge = Callable[[Case], Iterator[Finding | Reach]]


@dataclass(frozen=True)
class Detector:
    """One way to see a pattern: a generator over a case whose ``needs`` are known to be there."""

    judge: Judge
    needs: tuple[str, ...]
    grade: Grade


class Role(str, Enum):
    """What a matched log line is: the first cause, what a cause elsewhere brings about, a message that only passes a
    failure on, or something that adds weight to a finding of the same code and is none by itself."""

    CAUSE = "cause"
    CASCADE = "cascade"
    WRAPPER = "wrapper"
    CONFIRMATION = "confirmation"


LogJudge = Callable[[Case, "LogEvent"], Iterator[Finding]]
RunJudge = Callable[[Case, "LogRun"], Iterator[Finding]]

# Shorter literals are found everywhere and make the search of large logs slow.
SHORTEST_LITERAL = 6


@dataclass(frozen=True)
class Signature:
    """One way a log shows a pattern. ``literals`` are looked for as they stand, ``unless`` are texts whose presence
    in the line or its exception rules the pattern out; ``silent`` ones also count in a run that ends well."""

    literals: tuple[str, ...]
    judge: LogJudge
    role: Role = Role.CAUSE
    unless: tuple[str, ...] = ()
    silent: bool = False


# `--select` and `explain` take codes in any case and look for capitals.
CODE = re.compile(r"[A-Z]+[0-9]+")


class Check:
    """One code of the vocabulary. ``doc`` is the module's docstring, which ``rldoctor explain`` prints with the worked
    ``example`` (:mod:`rldoctor.example`; where no file is named, ``examples/CODE.md`` in the check's package).

    Raises :class:`ValueError` for a ``code`` that is not capital letters and digits."""

    def __init__(self, code: str, name: str, doc: str | None, *, example: Path | None = None) -> None:
        if not CODE.fullmatch(code):
            raise ValueError(f"{code!r} is no code: capital letters, then digits, such as ACME01")
        self.code = code
        self.name = name
        self.doc = (doc or "").strip()
        self.example = example
        self.detectors: list[Detector] = []
        self.signatures: list[Signature] = []
        self.conclusions: list[RunJudge] = []

    def declared(self, *, needs: tuple[str, ...] | list[str]) -> Callable[[Judge], Judge]:
        """Registers a detector that judges configuration, versions and machine facts."""
        return self._register(needs, Grade.DECLARED)

    def observed(self, *, needs: tuple[str, ...] | list[str]) -> Callable[[Judge], Judge]:
        """Registers a detector that judges what a probe recorded under ``observations``."""
        return self._register(needs, Grade.OBSERVED)

    def logged(
        self, *literals: str, role: Role = Role.CAUSE, unless: tuple[str, ...] = (), silent: bool = False
    ) -> Callable[[LogJudge], LogJudge]:
        """Registers a detector that judges the log lines in which one of ``literals`` stands.

        Raises :class:`ValueError` for a literal that is too short or spans lines."""
        for literal in literals:
            if len(literal) < SHORTEST_LITERAL or literal.splitlines() != [literal]:
                raise ValueError(f"{self.code}: {literal!r} must be one line of {SHORTEST_LITERAL} characters or more")

        def add(judge: LogJudge) -> LogJudge:
            self.signatures.append(Signature(literals, judge, role, tuple(unless), silent))
            return judge

        return add

    def concluded(self, judge: RunJudge) -> RunJudge:
        """Registers a detector that judges a whole run whose log shows no known cause."""
        self.conclusions.append(judge)
        return judge

    def finding(
        self,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        grade: Grade = Grade.DECLARED,
        evidence: tuple[Evidence, ...] = (),
        fixes: tuple[Fix, ...] = (),
        url: str | None = None,
    ) -> Finding:
        """A finding of this check. DESIGN law 7: an error needs evidence."""
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            grade=grade,
            message=message,
            evidence=evidence,
            fixes=fixes,
            url=url,
        )

    def _register(self, needs: tuple[str, ...] | list[str], grade: Grade) -> Callable[[Judge], Judge]:
        if isinstance(needs, str) or not all(isinstance(need, str) for need in needs):
            raise TypeError(f"{self.code}: needs must be a list of names of facts, not {needs!r}")

        def add(judge: Judge) -> Judge:
            self.detectors.append(Detector(judge, tuple(needs), grade))
            return judge

        return add
