"""Asks signatures, detectors of metrics and conclusions about one run, and makes outcomes of what they say."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial

from rldoctor.case import Case
from rldoctor.catalogue.check import Check, Kind, NotApplicable, NotChecked, Role
from rldoctor.catalogue.precedence import Precedence
from rldoctor.errors import one_line
from rldoctor.judge import join_results, judge_one, yielded
from rldoctor.logs.events import Asked
from rldoctor.logs.launched import is_whole
from rldoctor.logs.model import LogEvent, LoggedException, LogRun
from rldoctor.logs.nearest import nearest
from rldoctor.logs.raised import of_a_family, raised_by
from rldoctor.logs.ranking import Found, explains
from rldoctor.model import CheckResult, Finding, Grade, Outcome, Severity
from rldoctor.records import dataclass

# How an end by a signal is called.
NATIVE = re.compile(r"SIG[A-Z]+$|(?:Segmentation fault|Killed|Aborted|Bus error|Illegal instruction|Fatal signal)$")


@dataclass
class Answers:
    """What was found so far, the signatures that found nothing in what they were shown, and what crashed, by code."""

    found: list[Found] = field(default_factory=list)
    declined: list[Asked] = field(default_factory=list)
    crashes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def collect(
        self,
        check: Check,
        role: Role,
        event: LogEvent | None,
        judge: Callable[[], Iterable[Finding]],
        general: bool = False,
        lost: bool = False,
    ) -> bool:
        """Takes all that a judge yields; whether it was anything."""
        before = len(self.found)
        try:
            for item in yielded(check, judge):
                if isinstance(item, Finding):
                    self.found.append(Found(_completed(item, event), role, event, general=general, lost=lost))
        except (NotApplicable, NotChecked):
            pass
        except (Exception, SystemExit) as error:  # a plugin's signature may fail in any way; the others go on
            self.crashes.setdefault(check.code, (one_line(error), traceback.format_exc()))
        return len(self.found) > before


def ask(
    checks: list[Check], events: list[Asked], case: Case, run: LogRun, precedence: Precedence
) -> tuple[list[Found], tuple[CheckResult, ...]]:
    """Every signature's answer on every event it is to see, then the conclusions where no cause was found."""
    answers = Answers()
    chosen = {check.code for check in checks}
    events = [item for item in events if item.check.code in chosen]
    for item in events:
        if item.refusal is None:
            judge = partial(_judged, item, case)
            said = item.signature
            if not answers.collect(item.check, said.role, item.event, judge, said.general, said.lost):
                answers.declined.append(item)
    measures = {result.code: result for result in measured(checks, case)}
    found = answers.found
    found += [Found(f, Role.CAUSE, None, measured=True) for result in measures.values() for f in result.findings]
    explained = any(explains(item) for item in found)
    if not explained:
        known = [check for check in checks if check.code not in {item.code for item in found}]
        near = nearest(run, known, events, answers.declined) if run.root is not None else []
        raised = raised_by(run.root, run.versions, case) if run.root is not None else None
        run = replace(run, near=tuple(near), raised=raised)
        for check in checks:
            for conclusion in check.conclusions:
                answers.collect(check, Role.CAUSE, None, partial(conclusion, case, run))
        family = of_a_family(known, run)
        if family is not None:
            fallbacks = precedence.of_kind(Kind.FALLBACK)
            found[:] = [item for item in found if item.code not in fallbacks]
            found.append(Found(_completed(family[1], None), Role.CAUSE))
        concluded = {item.code for item in found if item.event is None and not item.measured}
        needless = {code for code in concluded if precedence.is_explained(code, concluded)}
        found = [item for item in found if item.event is not None or item.measured or item.code not in needless]
    found += _declared(checks, case, run, found, precedence, explained)
    deaths = precedence.of_kind(Kind.DEATH)
    if run.root is not None and _says_little(run.root):
        # A signal that ended a process, and a traceback without its end, say no more than its recorded death.
        fallbacks = precedence.of_kind(Kind.FALLBACK)
        recorded = any(item.code in deaths and item.role is Role.CASCADE for item in found)
        found = [item for item in found if not (recorded and item.code in fallbacks)]
    if _recorded(found, run, deaths):
        elsewhere = precedence.of_kind(Kind.ELSEWHERE)
        found = [item for item in found if item.code not in elsewhere]
    return found, tuple(
        join_results([r for r in (_result(c, found, answers.crashes.get(c.code), run), measures.get(c.code)) if r])
        for c in checks
    )


def _says_little(root: LoggedException) -> bool:
    return (NATIVE.match(root.type) is not None and not root.frames) or (root.is_cut_off and root.cause is None)


def _recorded(found: Sequence[Found], run: LogRun, deaths: frozenset[str]) -> bool:
    """Whether a code says more than "the cause is elsewhere": a recorded death, or, where no process ended without a
    word, a time-out or a lost connection."""
    if any(item.code in deaths and item.role is Role.CASCADE for item in found):
        return True
    return not run.departed and any(item.role in (Role.CASCADE, Role.WRAPPER) for item in found)


def measured(checks: Sequence[Check], case: Case) -> list[CheckResult]:
    """What the detectors say that judge metrics and nothing else."""
    results = []
    for check in checks:
        judging = Check(check.code, check.name, None)
        judging.detectors = [
            d for d in check.detectors if d.needs and all(n.split(".")[0] == "metrics" for n in d.needs)
        ]
        if judging.detectors:
            results.append(judge_one(judging, case))
    return results


def _declared(
    checks: Sequence[Check], case: Case, run: LogRun, found: Sequence[Found], precedence: Precedence, explained: bool
) -> list[Found]:
    """What the launch behind the log risks. Where the run failed and nothing explains it, that is worth a warning;
    where it went on or the cause is known, a note. What causes something that was measured keeps its weight. What the
    devices and the packages of the log risk together is asked where a failure is left unexplained."""
    asked = {"plan"} if case.plan is not None and is_whole(case.plan) else set()
    if run.incident.kind == "crashed" and not explained and (run.root is None or run.root.raised_by_user is None):
        asked.add("gpus")
    if not asked:
        return []
    codes = {item.code for item in found if item.measured}
    causes = {first for first, second in precedence.before if second in codes}
    weight = Severity.WARNING if run.incident.kind == "crashed" and not explained else Severity.NOTE
    risks = []
    for check in checks:
        judging = Check(check.code, check.name, None)
        judging.detectors = [
            d
            for d in check.detectors
            if d.grade is Grade.DECLARED and any(need.split(".")[0] in asked for need in d.needs)
        ]
        for risk in judge_one(judging, case).findings if judging.detectors else ():
            if check.code not in causes and risk.severity is not Severity.NOTE:
                risk = replace(risk, severity=weight if risk.severity is Severity.ERROR else Severity.NOTE)
            risks.append(Found(risk, Role.CAUSE, declared=True))
    return risks


def _judged(item: Asked, case: Case) -> Iterator[Finding]:
    """What a signature says of its event. A run that went on behind a line was not ended by what it tells."""
    for finding in item.signature.judge(case, item.event):
        harmless = item.survived and isinstance(finding, Finding) and finding.severity is Severity.ERROR
        yield replace(finding, severity=Severity.NOTE) if harmless else finding


def _completed(finding: Finding, event: LogEvent | None) -> Finding:
    """What a signature need not say: that its finding was observed, and in which line."""
    evidence = finding.evidence or ((event.evidence(),) if event is not None else ())
    grade = Grade.OBSERVED if finding.grade is Grade.DECLARED else finding.grade
    return replace(finding, evidence=evidence, grade=grade)


def _result(check: Check, found: Sequence[Found], crash: tuple[str, str] | None, run: LogRun) -> CheckResult:
    findings = tuple(item.finding for item in found if item.code == check.code and item.role is not Role.CONFIRMATION)
    reason, trace = crash or (None, None)
    if findings:
        outcome = Outcome.FINDINGS
        return CheckResult(code=check.code, name=check.name, outcome=outcome, findings=findings, traceback=trace)
    if crash is not None:
        outcome = Outcome.CRASHED
        return CheckResult(code=check.code, name=check.name, outcome=outcome, reason=reason, traceback=trace)
    if not check.signatures and not check.conclusions:
        return CheckResult(
            code=check.code, name=check.name, outcome=Outcome.NOT_APPLICABLE, reason="no log shows this pattern"
        )
    reach = f"not seen in {run.lines} lines of {len(run.sources)} file{'s' if len(run.sources) != 1 else ''}"
    return CheckResult(code=check.code, name=check.name, outcome=Outcome.PASS, reason=reach)
