"""What a diagnosis is made of: findings, their evidence and fixes, and the outcome of each check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, TypedDict

from rldoctor.exhibits.model import Exhibits
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Severity(str, Enum):
    """How much a finding matters; an ``error`` stops or spoils the run."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Grade(str, Enum):
    """How the evidence was come by, weakest first (law 6, ARCHITECTURE.md)."""

    DECLARED = "declared"
    SIMULATED = "simulated"
    OBSERVED = "observed"
    REPRODUCED = "reproduced"


class Applicability(str, Enum):
    """Whether a fix may be applied unasked (``safe``), after thought (``unsafe``), or is for reading (``display``)."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Outcome(str, Enum):
    """What became of one check."""

    PASS = "pass"
    FINDINGS = "findings"
    NOT_APPLICABLE = "not-applicable"
    NOT_CHECKED = "not-checked"
    CRASHED = "crashed"


class Level(IntEnum):
    """How deep ``rldoctor check`` looks; each level includes the ones before it."""

    STATIC = 0
    IMPORTS = 1
    DEVICES = 2
    ROLLOUT = 3
    COMPARE = 4

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One thing seen, and where: ``source`` is a file, a distribution or a probe, ``line`` counts from 1. ``setting``
    is the native name of the setting that it cites; two that say the same are equal whatever they cite."""

    text: str
    source: str | None = None
    line: int | None = None
    setting: str | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One change of one setting. ``option`` is canonical (``engine.max_model_len``, ``env.NAME``); ``spelled`` is the
    same change in the target's own syntax, filled in by its dialect together with ``file`` and ``line``."""

    option: str
    value: object
    spelled: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a fix makes of a file: the lines from ``first`` up to, not including, ``end`` become ``text``."""

    file: str
    first: int
    end: int
    text: str


class _Told(TypedDict, total=False):
    """What else a fix may tell."""

    commands: tuple[str, ...]
    valid_for: str
    side_effects: str


@dataclass(frozen=True, kw_only=True)
class Fix:
    """A remedy as data. ``proven`` names the probe run that passed with it; ``valid_for`` the versions it holds for."""

    title: str
    applicability: Applicability = Applicability.DISPLAY
    edits: tuple[Edit, ...] = ()
    commands: tuple[str, ...] = ()
    valid_for: str | None = None
    side_effects: str | None = None
    proven: str | None = None
    changes: tuple[Change, ...] = ()
    """What applying it makes of the launch's files; only where somebody asked for that."""

    @classmethod
    def safe(cls, title: str, settings: Mapping[str, object], **reported: Unpack[_Told]) -> Fix:
        """Settings that may be applied unasked. ``settings`` maps canonical options to the values they get."""
        edits = tuple(Edit(option=option, value=value) for option, value in settings.items())
        return cls(title=title, applicability=Applicability.SAFE, edits=edits, **reported)

    @classmethod
    def unsafe(cls, title: str, settings: Mapping[str, object], **reported: Unpack[_Told]) -> Fix:
        """Settings that want thought first."""
        return replace(cls.safe(title, settings, **reported), applicability=Applicability.UNSAFE)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One pattern of docs/codes.md recognised in this case. ``cases`` names those of several (environments, launches,
    machines) in which it was; it is empty where all have it."""

    code: str
    name: str
    severity: Severity
    grade: Grade
    message: str
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    url: str | None = None
    cases: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The outcome of one check. ``reason`` says how far a pass reached, or which fact is missing and how to get it;
    ``lacks`` are the facts that a check which is not checked has read and nobody knows, by their dotted names."""

    code: str
    name: str
    outcome: Outcome
    reason: str | None = None
    findings: tuple[Finding, ...] = field(default=())
    traceback: str | None = None
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProcessFailure:
    """One failure of one process of a run: who (a rank, else actor and process), what it said, and how many seconds
    ``after`` the first failure that was, where the log has times. ``cause`` marks the first failure itself."""

    process: str
    exception: str
    after: float | None = None
    source: str | None = None
    line: int | None = None
    cause: bool = False


@dataclass(frozen=True, kw_only=True)
class Incident:
    """What happened in one run, as its log tells.

    ``kind`` is how it ended, each from evidence of its own: ``crashed`` or ``stalled`` (it failed), ``unhealthy`` (it
    came to its end or goes on, and learns nothing), ``finished`` (the last planned step, or the trainer's last words),
    ``unfinished`` (cut off or still running, ``step`` tells where; with the ``stage`` start before anything ran) or
    ``unknown`` (nothing shows that a run went on: no log, or words of failure that nothing explains; ``suspects`` are
    the lines that look like it, and ``wordless`` says that they tell of a process that ended without a last word).
    ``first_rank`` is the first failing rank (where the log has no ranks, its actor and process), ``stage`` where in
    training it was (start, weights, rollout, reward, log-probabilities, update, weight sync, checkpoint, evaluation).
    ``exception`` is ``Type: message`` of the first failure, ``frames`` its ``file:line in function``, innermost last,
    ``user_frame`` the innermost one outside installed packages. ``cascades`` are failures that others caused,
    ``failures`` those of each process in the order in which they came, ``unharmed`` the ranks that wrote and did not
    fail. ``run`` of ``runs`` in these files this is;
    ``partial`` says why the log is incomplete. ``node`` is the one on which it ended, where who ended it names it, and
    ``attempt`` how often it had been started again before (0: never). ``dated`` are the releases that the line numbers
    of its tracebacks are those of, where the log names no version: ``trl 1.13.0 to 1.16.0``. ``facts`` are what the
    log tells of packages, devices, processes and nodes, each with the line that does."""

    kind: str
    first_rank: str | None = None
    stage: str | None = None
    exception: str | None = None
    frames: tuple[str, ...] = ()
    user_frame: str | None = None
    cascades: tuple[str, ...] = ()
    failures: tuple[ProcessFailure, ...] = ()
    unharmed: tuple[str, ...] = ()
    framework: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    source: str | None = None
    line: int | None = None
    run: int = 1
    runs: int = 1
    partial: str | None = None
    step: str | None = None
    node: str | None = None
    attempt: int | None = None
    suspects: tuple[Evidence, ...] = ()
    wordless: bool = False
    dated: tuple[str, ...] = ()
    facts: tuple[Evidence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """A finding that the project's settings ignore: the reason that they give, and the last day (ISO) of that."""

    finding: Finding
    reason: str
    until: str | None = None


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something that a verdict speaks about and that was not reached: ``what`` is a clause, ``how`` the option that
    supplies it."""

    what: str
    how: str | None = None

    def __str__(self) -> str:
        return f"{self.what} ({self.how})" if self.how else self.what


class State(str, Enum):
    """What a report comes to."""

    PASSED = "passed"
    """Everything that the verdict speaks about was reached, and nothing at or above the threshold was found."""
    FINDINGS = "findings"
    NOT_JUDGED = "not-judged"
    """Nothing at or above the threshold was found, and something that the verdict speaks about was not reached."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The state of a report, from which severity on findings fail it (``error``, ``warning`` or ``never``), and what
    was not reached."""

    state: State
    fail_on: str = "error"
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a command found: results in order of their codes, findings with the most likely root cause first."""

    target: str
    results: tuple[CheckResult, ...]
    notes: tuple[str, ...] = ()
    """What the reader should know of how the report came about: levels skipped and why, plugins that failed."""
    place: Evidence | None = None
    """The file and line that stand for all that was examined: the launch, or the log."""
    folder: str | None = None
    """Where the launch is, None where there are several: a person knows what is below it by its name from there."""
    ignored: tuple[Ignored, ...] = ()
    fixed: tuple[str, ...] = ()
    """The fingerprints of what the baseline has and is found no more."""
    missing: tuple[Missing, ...] = ()
    """What the verdict speaks about and was not reached."""
    verdict: Verdict | None = None
    incident: Incident | None = None
    ranked: tuple[Finding, ...] | None = None
    """The findings in an order that the evidence gave (a log's), where there is a better one than severity and code."""
    earlier_runs: tuple[Report, ...] = ()
    exhibits: tuple[Exhibits, ...] = ()
    """What can be drawn of each case; only where somebody asked for a page."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        if self.ranked is not None:
            return self.ranked
        found = [finding for result in self.results for finding in result.findings]
        return tuple(sorted(found, key=_cause_first))


_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def _cause_first(finding: Finding) -> tuple[int, str]:
    # The codes run from the environment up to the training signal, and causes act in that direction.
    return (_SEVERITY_ORDER[finding.severity], finding.code)
