"""What a check is: one code, its document, and detectors that judge facts."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldoctor.case import Case
from rldoctor.catalogue.signature import SHORTEST_LITERAL, Condition, Fixes, LogJudge, Role, Row, Signature, Weight
from rldoctor.catalogue.threshold import Threshold
from rldoctor.model import Evidence, Finding, Fix, Grade, Severity
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.logs.model import LogEvent, LogRun

__all__ = [
    "SHORTEST_LITERAL",
    "Check",
    "Detector",
    "Kind",
    "Knows",
    "NotApplicable",
    "NotChecked",
    "Reach",
    "Role",
    "Signature",
]


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
    """One way to see a pattern: a generator over a case whose ``needs`` are known to be there. A ``fallback`` is also
    given a function that says which failed runs other checks know."""

    judge: Callable[..., Iterator[Finding | Reach]]
    needs: tuple[str, ...]
    grade: Grade
    fallback: bool = False


RunJudge = Callable[[Case, "LogRun"], Iterator[Finding]]
# Whether a failed run of a probe (its record in the case) shows a check's pattern.
Knows = Callable[[Mapping[str, Any]], bool]
FallbackJudge = Callable[[Case, Knows], Iterator[Finding | Reach]]


class Kind(str, Enum):
    """What a check's finding says of a run."""

    CAUSE = "cause"  # why something is wrong
    STALL = "stall"  # that the run makes no progress, also where nothing failed
    DEATH = "death"  # that a process ended
    QUALITY = "quality"  # that it learns little or nothing, of which no run ends
    ELSEWHERE = "elsewhere"  # that the cause is in another log
    FALLBACK = "fallback"  # where it failed, as no other check knows why


# `--select` and `explain` take codes in any case and look for capitals.
CODE = re.compile(r"[A-Z]+[0-9]+")
THRESHOLD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Check:
    """One code of the vocabulary, in one file or one folder.

    ``doc`` is the module's docstring, which ``rldoctor explain`` prints with the worked ``example``
    (:mod:`rldoctor.catalogue.example`; where none is named, ``example.md`` in the check's folder, or the file
    ``NAME.md`` beside its ``NAME.py``). ``before`` are codes or names of checks that this one comes before where a log
    shows both: the cause before what it causes, the specific before the general. ``explains`` are those whose
    conclusion about a failure is withdrawn where this check concludes something about it. ``formerly`` are names
    that it had, which are still understood.

    Raises :class:`ValueError` for a ``code`` that is not capital letters and digits."""

    def __init__(
        self,
        code: str,
        name: str,
        doc: str | None,
        *,
        before: tuple[str, ...] = (),
        explains: tuple[str, ...] = (),
        formerly: tuple[str, ...] = (),
        kind: Kind = Kind.CAUSE,
        example: Path | None = None,
    ) -> None:
        if not CODE.fullmatch(code):
            raise ValueError(f"{code!r} is no code: capital letters, then digits, such as ACME01")
        if isinstance(before, str) or isinstance(explains, str):
            raise TypeError(f"{code}: before and explains are tuples of codes or names")
        self.code = code
        self.name = name
        self.doc = (doc or "").strip()
        self.before = before
        self.explains = explains
        self.formerly = formerly
        self.kind = kind
        self.example = example
        # Where the check stands, as collections.namedtuple knows it: the module that calls.
        self.module = str(sys._getframe(1).f_globals.get("__name__", ""))
        self.detectors: list[Detector] = []
        self.signatures: list[Signature] = []
        self.conclusions: list[RunJudge] = []
        self.known_by: list[Knows] = []
        self.thresholds: dict[str, Threshold] = {}

    def declared(self, *, needs: tuple[str, ...] | list[str]) -> Callable[[Judge], Judge]:
        """Registers a detector that judges configuration, versions and machine facts."""
        return self._register(needs, Grade.DECLARED)

    def observed(self, *, needs: tuple[str, ...] | list[str]) -> Callable[[Judge], Judge]:
        """Registers a detector that judges what a probe recorded under ``observations``."""
        return self._register(needs, Grade.OBSERVED)

    def fallback(self, *, needs: tuple[str, ...] | list[str]) -> Callable[[FallbackJudge], FallbackJudge]:
        """Registers a detector of what no other check explains. It judges what a probe recorded, and is given a
        function that says whether another check knows the failed run of a probe (:meth:`knows`)."""

        def add(judge: FallbackJudge) -> FallbackJudge:
            self._register(needs, Grade.OBSERVED, fallback=True)(judge)
            return judge

        return add

    def knows(self, judge: Knows) -> Knows:
        """Registers a function that says of a failed run of a probe whether it shows this check's pattern, so that a
        fallback is silent about it."""
        self.known_by.append(judge)
        return judge

    def logged(
        self,
        *literals: str,
        role: Role = Role.CAUSE,
        unless: tuple[str, ...] = (),
        silent: bool = False,
        general: bool = False,
    ) -> Callable[[LogJudge], LogJudge]:
        """Registers a function that judges the log lines in which one of ``literals`` stands. Where literal, expression
        and message are all there is to it, :meth:`signature` says it as data, and what the options are.

        Raises :class:`ValueError` for a literal that is too short or spans lines."""
        self._searchable(literals)

        def add(judge: LogJudge) -> LogJudge:
            self.signatures.append(Signature(literals, judge, role, tuple(unless), silent, general))
            return judge

        return add

    def signature(
        self,
        *literals: str,
        says: str,
        pattern: str | None = None,
        details: tuple[str, ...] = (),
        exception: str | tuple[str, ...] = (),
        unless: tuple[str, ...] = (),
        versions: Mapping[str, str] | None = None,
        when: Condition | None = None,
        fixes: Fixes = (),
        role: Role = Role.CAUSE,
        severity: Weight = Severity.ERROR,
        silent: bool = False,
        general: bool = False,
        behind: bool = False,
        lost: bool = False,
        url: str | None = None,
    ) -> Signature:
        """Declares how a log shows the pattern: one of ``literals`` in a line, and a finding that ``says`` what it is.

        ``pattern`` is an expression that must be found in the line, its exception or the lines after it
        (:attr:`LogEvent.text`), ``details`` are some that may be; their named groups are words for ``says`` and the
        fixes: ``{size}``, ``{size|unknown}`` with a default, ``[[ on {node}]]`` only where the word is known,
        ``[[{size} bytes||some bytes]]`` with other words where it is not. A group ``size_2`` is another place where
        ``size`` may stand. Every text also has ``{line}``, ``{literal}``, ``{count}`` (of such lines), ``{ranks}``,
        ``{error}`` (the first line of the exception) and ``{place}`` (in the user's own code).
        ``exception`` names the types of which the line's exception must be one, ``versions`` the releases that must be
        known and within (``{"trl": "<0.18"}``), ``unless`` texts that rule the pattern out, ``when`` a function that
        must hold besides and may give further words. ``fixes`` are data, or a function of case, event and words;
        ``severity`` is one, or a function of the event. What is ``general`` (words that many systems share) comes after
        what another signature of the check says of the same weight. What judges ``behind`` the run, too, is also asked
        about lines without a literal, which others than the run wrote when it was over (:attr:`LogEvent.outside`). A
        consequence that tells of a ``lost`` machine is nearer to the cause than those of what waited for it.

        Raises :class:`ValueError` for a literal that cannot be searched, or a word that nothing supplies."""
        self._searchable(literals)
        try:
            row = Row(
                says=says,
                pattern=pattern,
                details=details,
                exception=(exception,) if isinstance(exception, str) else tuple(exception),
                versions=dict(versions or {}),
                when=when,
                fixes=fixes,
                severity=severity,
                url=url,
            )
        except ValueError as error:
            raise ValueError(f"{self.code}: {error}") from error

        def judge(case: Case, event: LogEvent) -> Iterator[Finding]:
            said = row.message(case, event)
            if said is not None:
                severity = row.severity if isinstance(row.severity, Severity) else row.severity(event)
                yield self.finding(said[0], severity=severity, fixes=said[1], url=row.url)

        declared = Signature(literals, judge, role, tuple(unless), silent, general, behind, lost, row)
        self.signatures.append(declared)
        return declared

    def passes_on(self, *literals: str) -> None:
        """Declares what a process prints where it only passes on what failed elsewhere: a line with one of ``literals``
        is no cause, and says nothing of its own.

        Raises :class:`ValueError` for a literal that is too short or spans lines."""
        self._searchable(literals)
        self.signatures.append(Signature(literals, lambda case, event: iter(()), Role.WRAPPER))

    def threshold(self, name: str, usual: float, says: str, most: float = math.inf) -> Threshold:
        """Declares a number that a project may set in ``[thresholds.CODE]``: ``usual`` where it does not. ``says`` is
        what begins at this number, with its unit; a share can be 1 at ``most``.

        Raises :class:`ValueError` for a name that is taken, or is not spelled as settings are."""
        if not THRESHOLD.fullmatch(name) or name in self.thresholds:
            raise ValueError(f"{self.code}: {name!r} is taken, or is no name such as fewest-steps")
        return self.thresholds.setdefault(name, Threshold(self.code, name, usual, says, most))

    def _searchable(self, literals: tuple[str, ...]) -> None:
        for literal in literals:
            if len(literal) < SHORTEST_LITERAL or literal.splitlines() != [literal]:
                raise ValueError(f"{self.code}: {literal!r} must be one line of {SHORTEST_LITERAL} characters or more")

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
        """A finding of this check. An error needs evidence (law 7, ARCHITECTURE.md)."""
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

    def _register(
        self, needs: tuple[str, ...] | list[str], grade: Grade, *, fallback: bool = False
    ) -> Callable[[Any], Any]:
        if isinstance(needs, str) or not all(isinstance(need, str) for need in needs):
            raise TypeError(f"{self.code}: needs must be a list of names of facts, not {needs!r}")

        def add(judge: Any) -> Any:
            self.detectors.append(Detector(judge, tuple(needs), grade, fallback))
            return judge

        return add
