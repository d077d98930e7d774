"""Sorts what signatures found: cause before cascade, the root exception's before others', earlier before later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rldoctor.catalogue.check import Kind, Role
from rldoctor.catalogue.precedence import Precedence
from rldoctor.logs.model import LogEvent, LogRun
from rldoctor.logs.services import is_signed
from rldoctor.logs.slip import is_a_slip
from rldoctor.model import Evidence, Finding, Severity
from rldoctor.records import dataclass

# How near to the first failure a line stands.
ROOT, FATAL, SAID, ASIDE = range(4)
_MOST_EVIDENCE = 4
# Of a message its beginning, by which the exception that wraps it is known.
_BEGINNING = 80
_SEVERITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True)
class Found:
    """A finding, the role of the signature that yielded it, whether that is a ``general`` one or tells of a ``lost``
    machine, and where it was seen;
    ``event`` is None for conclusions, for what the metrics show (``measured``) and for what the launch behind the log
    says (``declared``)."""

    finding: Finding
    role: Role
    event: LogEvent | None = None
    measured: bool = False
    declared: bool = False
    general: bool = False
    lost: bool = False

    @property
    def code(self) -> str:
        return self.finding.code


def closeness(event: LogEvent) -> int:
    """Where a line stands: in the root exception, in another failure, said freely, or beside (a warning, what was
    caught)."""
    root = event.run.root
    if event.exception is not None and root is not None and event.exception is root:
        return ROOT
    if event.fatal:
        return FATAL
    # To whoever runs the job its end is mere information.
    grave = event.level in (None, "ERROR", "CRITICAL") or is_signed(event.line)
    said = event.exception is None and grave
    return SAID if said and not is_a_slip(root) else ASIDE


def explains(found: Found) -> bool:
    """Whether a finding accounts for the failure, so that nothing else has to."""
    if found.role is not Role.CAUSE or found.event is None:
        return False
    near = closeness(found.event)
    return near is ROOT or (found.finding.severity is Severity.ERROR and near < ASIDE)


def ranked(found: Sequence[Found], run: LogRun, precedence: Precedence) -> tuple[Finding, ...]:
    """One finding per code, most likely root cause first."""
    elsewhere, quality = precedence.of_kind(Kind.ELSEWHERE), precedence.of_kind(Kind.QUALITY)
    deaths = precedence.of_kind(Kind.DEATH)
    over = any(_ends(item, deaths) for item in found)

    def key(item: Found) -> _Key:
        return _key(item, run, elsewhere, quality if over else frozenset())

    def within_code(item: Found) -> tuple[tuple[int, int], bool, _Key]:
        whole = key(item)
        return whole[:2], item.general, whole

    best: dict[str, Found] = {}
    known = {_place(item) for item in found if not item.general and item.finding.severity is Severity.ERROR}
    for item in sorted(found, key=within_code):
        if item.role is Role.CONFIRMATION or (item.general and _place(item) in known - {None}):
            continue
        kept = best.get(item.code)
        best[item.code] = item if kept is None else _joined(kept, item)
    for item in found:
        if item.role is Role.CONFIRMATION and item.code in best:
            best[item.code] = _joined(best[item.code], item)
    order = [item.code for item in sorted(best.values(), key=key)]
    return tuple(best[code].finding for code in _constrained(order, best, precedence))


def _place(item: Found) -> tuple[str, int] | None:
    """Where something was seen: of one line what is general says no more than what is not."""
    return None if item.event is None else (item.event.source, item.event.number)


_Key = tuple[int, int, int, int, float, int, int, int, str]


def _ends(item: Found, deaths: frozenset[str]) -> bool:
    """Whether a line tells what ended the run."""
    if item.event is None or item.role not in (Role.CAUSE, Role.CASCADE):
        return False
    return item.code in deaths or item.event.fatal


def _key(item: Found, run: LogRun, elsewhere: frozenset[str], beside: frozenset[str]) -> _Key:
    event = item.event
    severity = _severity(item)
    if event is None:
        return (_group(item, run, elsewhere, beside), severity, 0, 0, 0.0, 0, 0, 0, item.code)
    time = event.time if len(run.sources) > 1 and event.time is not None else 0.0
    # A line of source that a traceback quotes has the message's names, the message its values.
    raised = event.exception
    quoted = int(raised is not None and (event.literal not in raised.message or event.is_code))
    return (
        _group(item, run, elsewhere, beside),
        severity,
        # A machine that is gone ended what waited for it, whichever of the two is told first.
        int(not item.lost),
        closeness(event),
        time,
        event.number + quoted,
        quoted,
        -len(event.literal),
        item.code,
    )


def _severity(item: Found) -> int:
    return _SEVERITY[item.finding.severity]


def _group(item: Found, run: LogRun, elsewhere: frozenset[str], beside: frozenset[str]) -> int:
    if item.declared:
        return 6  # a risk is not what happened
    if item.role is Role.CAUSE and item.event is not None:
        return 0 if explains(item) or run.root is None else 5
    if item.role is Role.CASCADE:
        return 2
    if item.measured:
        return 0 if run.root is None and item.code not in beside else 5
    if item.event is None:
        # Of a process that ended without a word the others' words are consequences.
        return 4 if item.code in elsewhere and not run.departed else 1
    return 3 if item.role is Role.WRAPPER else 5


def _constrained(order: list[str], best: dict[str, Found], precedence: Precedence) -> list[str]:
    """Moves a code up before what it must precede, where both explain the run equally."""
    for first, second in precedence.before:
        if first in order and second in order and order.index(first) > order.index(second):
            if best[first].role is not best[second].role:
                continue
            # Of what the metrics show the graver comes first.
            if best[first].measured and _severity(best[first]) > _severity(best[second]):
                continue
            # A risk comes before what it causes where that was measured, never before what was said of a failure.
            if best[first].declared and not (best[second].measured or best[second].declared):
                continue
            order.remove(first)
            order.insert(order.index(second), first)
    return order


def _joined(kept: Found, other: Found) -> Found:
    """The first finding of a code with the evidence of a later one, as far as that says more."""
    evidence: tuple[Evidence, ...] = kept.finding.evidence
    if other.event is None or not other.event.is_code:
        said = [_without_class(one.text) for one in evidence]
        evidence += tuple(e for e in other.finding.evidence if e not in evidence and not any(s in e.text for s in said))
    fixes = kept.finding.fixes or other.finding.fixes
    return replace(kept, finding=replace(kept.finding, evidence=evidence[:_MOST_EVIDENCE], fixes=fixes))


def _without_class(text: str) -> str:
    """The beginning of a line's message, without the name of the exception before it."""
    head, _, message = text.partition(": ")
    return (message if message and " " not in head else text)[:_BEGINNING]
