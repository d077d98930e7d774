"""Runs the detectors of checks over a case and joins what they say into outcomes."""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from rldoctor import reads
from rldoctor.case import Case, Unknown
from rldoctor.case.lookup import Absent, find_all, lookup
from rldoctor.catalogue.check import Check, Detector, Kind, Knows, NotApplicable, NotChecked, Reach
from rldoctor.errors import one_line
from rldoctor.model import CheckResult, Finding, Grade, Outcome, Severity
from rldoctor.plan.evidence import DEFAULT, in_cells
from rldoctor.plan.model import Form, RolloutPlan

# What a check as a whole says when its detectors, or the cases it judged, differ: the first of these that any says.
_OF_DETECTORS = (Outcome.FINDINGS, Outcome.CRASHED, Outcome.PASS, Outcome.NOT_CHECKED, Outcome.NOT_APPLICABLE)
_OF_CASES = (Outcome.FINDINGS, Outcome.CRASHED, Outcome.NOT_CHECKED, Outcome.PASS, Outcome.NOT_APPLICABLE)


# The engine that detectors which ask for its package and for the launch are about.
ENGINE = "vllm"
# More are counted, not named.
MOST_DEFAULTS = 3


def judge(checks: Iterable[Check], case: Case, vocabulary: Iterable[Check] = ()) -> tuple[CheckResult, ...]:
    """The outcome of every check that judges facts. A check that raises is a result, and the others go on. Fallbacks
    are silent about what any check of the ``vocabulary`` (of ``checks``, where none is given) knows better."""
    checks = list(checks)
    known = knowing(list(vocabulary) or checks)
    return tuple(judge_one(check, case, known) for check in checks if check.detectors)


def judge_one(check: Check, case: Case, known: Knows = lambda job: False) -> CheckResult:
    """Runs a check's detectors and joins what they say into one outcome. A pass is an answer: what a probe saw is one,
    and so is what is declared, as long as no detector of what is declared misses a fact. What the launch sets and
    nobody can read no probe has played. Where a probe was run for the check and failed before it could tell, missed a
    fact, or had nothing to compare the engine with, neither stands for what it did not see."""
    said = [(detector, _run_detector(check, detector, case, known)) for detector in check.detectors]
    outcomes = {(detector.grade, result.outcome) for detector, result in said}
    answered = (Grade.OBSERVED, Outcome.PASS) in outcomes or (Grade.DECLARED, Outcome.NOT_CHECKED) not in outcomes
    unread = any(fact.startswith("plan.") for _, result in said for fact in result.lacks)
    answered = answered and not unread
    judged = [(_fell_short(case, detector, result), result) for detector, result in said]
    judged.sort(key=lambda one: not one[0])  # their reasons come first
    order = _OF_DETECTORS if answered and not judged[0][0] else _OF_CASES
    return join_results([result for _, result in judged], order, beside=True)


def _fell_short(case: Case, detector: Detector, result: CheckResult) -> bool:
    """Whether a detector has no answer although its probe was run."""
    if result.outcome is not Outcome.NOT_CHECKED:
        return False
    runs = _runs(case, detector)
    return bool(failed_runs(case, detector)) or any(map(_without_reference, runs)) or bool(runs and result.lacks)


def _without_reference(job: Mapping[str, Any]) -> bool:
    """Whether a run could not have the ``trainer``: the same weights in transformers, to compare the engine with."""
    return "trainer" in (job.get("records") or {}).get("unread", {})


def failed_runs(case: Case, detector: Detector) -> list[Mapping[str, Any]]:
    """The runs of the probes that a detector judges which did not come to their end, or of which no record is left."""
    return [job for job in _runs(case, detector) if job.get("ended") != "done" or "records" not in job]


def _runs(case: Case, detector: Detector) -> list[Mapping[str, Any]]:
    probes = [parts[1] for need in detector.needs if (parts := need.split("."))[0] == "observations"]
    jobs = [job for probe in probes for job in dict(case.observations.get(probe, {})).values()]
    return [job for job in jobs if isinstance(job, Mapping) and ("ended" in job or "records" in job)]


def knowing(vocabulary: Iterable[Check]) -> Knows:
    """A function that says whether any of these checks knows the failed run of a probe."""
    judges = [judge for check in vocabulary for judge in check.known_by]
    return lambda job: any(judge(job) for judge in judges)


def join_cases(said: list[CheckResult]) -> CheckResult:
    """One result out of one for each case. That one machine is well says nothing of another that was not looked at."""
    return join_results(said, _OF_CASES)


def join_results(
    said: list[CheckResult], order: tuple[Outcome, ...] = _OF_DETECTORS, *, beside: bool = False
) -> CheckResult:
    """One result for one code: the outcome that comes first in the order, every distinct finding, and the reasons
    behind the outcome."""
    findings: list[Finding] = []
    for finding in (f for result in said for f in result.findings):
        if finding not in findings:
            findings.append(finding)
    decisive = min(said, key=lambda result: order.index(result.outcome))
    # Beside an answer it counts what stayed open, beside an open question of detectors what was answered.
    both = (Outcome.PASS, Outcome.NOT_CHECKED)
    telling = both if decisive.outcome in both and (beside or order is _OF_DETECTORS) else (decisive.outcome,)
    ordered = sorted(said, key=lambda result: result.outcome is not decisive.outcome)
    reasons = dict.fromkeys(part for r in ordered if r.reason and r.outcome in telling for part in r.reason.split("; "))
    crash = next((r.traceback for r in said if r.traceback), None)
    lacks = dict.fromkeys(fact for r in said if r.outcome is decisive.outcome for fact in r.lacks)
    reason = "; ".join(reasons) or None
    return replace(decisive, findings=tuple(findings), reason=reason, traceback=crash, lacks=tuple(lacks))


def _run_detector(check: Check, detector: Detector, case: Case, known: Knows) -> CheckResult:
    def result(outcome: Outcome, reason: str | None = None, **more: Any) -> CheckResult:
        return CheckResult(code=check.code, name=check.name, outcome=outcome, reason=reason, **more)

    with reads.listening() as read:
        try:
            missing = first_missing(case, detector.needs)
        except reads.NotKnown:
            return result(Outcome.NOT_CHECKED, read.missing(), lacks=tuple(read.unknown))
        if isinstance(missing, Absent):
            return result(Outcome.NOT_APPLICABLE, missing.reason)
        if missing is not None:
            return result(Outcome.NOT_CHECKED, _with_how(missing.reason, missing.how), lacks=tuple(read.unknown))
        outcome = _heard(check, detector, case, known, result, read)
    runs = _runs(case, detector) if outcome.outcome is Outcome.PASS and check.kind is not Kind.FALLBACK else []
    if runs and runs == failed_runs(case, detector):
        why = next((f"not reached: {run['why']}" for run in runs if run.get("why")), "no run came to its end")
        outcome = result(Outcome.NOT_CHECKED, f"{why}; {outcome.reason}")
    # What a detector concludes where it read a fact that nobody knows is no answer.
    if read.unknown and outcome.outcome in (Outcome.PASS, Outcome.NOT_APPLICABLE):
        return result(Outcome.NOT_CHECKED, read.missing(), lacks=tuple(read.unknown))
    return replace(outcome, lacks=tuple(read.unknown)) if outcome.outcome is Outcome.NOT_CHECKED else outcome


def _heard(
    check: Check,
    detector: Detector,
    case: Case,
    known: Knows,
    result: Callable[..., CheckResult],
    read: reads.Reads,
) -> CheckResult:
    """What a detector says, whatever it reads."""
    findings: list[Finding] = []
    reach: list[str] = []
    try:
        given = (case, known) if detector.fallback else (case,)
        for item in yielded(check, partial(detector.judge, *given)):
            if isinstance(item, Reach):
                reach.append(item.text)
            else:
                findings.append(_finished(case, item))
    except (NotApplicable, NotChecked, reads.NotKnown) as reason:
        if findings:  # what was found stays found, whatever could not be looked at after it
            return result(Outcome.FINDINGS, findings=tuple(findings))
        if isinstance(reason, reads.NotKnown):
            return result(Outcome.NOT_CHECKED, read.missing())
        if isinstance(reason, NotApplicable):
            return result(Outcome.NOT_APPLICABLE, str(reason))
        return result(Outcome.NOT_CHECKED, _with_how(str(reason), reason.how))
    except (Exception, SystemExit) as error:  # a plugin's check may fail in any way; the others go on
        trace = traceback.format_exc()
        return result(Outcome.CRASHED, one_line(error), traceback=trace, findings=tuple(findings))
    if findings:
        return result(Outcome.FINDINGS, findings=tuple(findings))
    if not reach:  # that nothing was found says nothing where nobody knows what was looked at
        return result(Outcome.NOT_CHECKED, "a detector gave neither a finding nor how far it looked")
    return result(Outcome.PASS, "; ".join(reach))


def _finished(case: Case, finding: Finding) -> Finding:
    """The finding with what its rule does not know: the defaults it rests on, and what its fixes would move."""
    from rldoctor.edits.upgrades import fitting

    with reads.aside():
        fixes = tuple(fitting(case, fix) for fix in finding.fixes)
        finished = _overruled(case.plan, with_defaults(replace(finding, fixes=fixes)))
    return replace(finished, evidence=in_cells(case.plan, finished.evidence))


def _overruled(plan: RolloutPlan | None, finding: Finding) -> Finding:
    """The finding, which is no error where it rests on values of a configuration file, and words of the command line,
    which overrule the file, could not be read."""
    if plan is None or not plan.entry or finding.severity is not Severity.ERROR or finding.grade is not Grade.DECLARED:
        return finding
    hidden = next((note.text for note in plan.notes if note.unread), None)
    files = {given.file for given in plan.given if given.form is Form.YAML}
    if hidden is None or not any(line.source in files and " = " in line.text for line in finding.evidence):
        return finding
    message = f"{finding.message}. Of this a configuration file says a part, and the command line may overrule it: "
    return replace(finding, severity=Severity.WARNING, message=message + hidden)


def with_defaults(finding: Finding) -> Finding:
    """The finding, whose first sentence says which of the values that it rests on nobody gave: behind a value that it
    names, or at its end. ``None`` is no value."""
    rests = [line.text.removesuffix(DEFAULT) for line in finding.evidence if line.text.endswith(DEFAULT)]
    rests = [text for text in rests if not text.endswith("= None")]
    if not rests or finding.grade is not Grade.DECLARED or "default" in finding.message:
        return finding
    first, stop, more = finding.message.partition(". ")
    unnamed = []
    for text in rests:
        name, _, value = text.rpartition(" = ")
        in_place = re.compile(rf"(?<!\S){re.escape(name.rpartition('.')[2])} {re.escape(value)}(?![\w.])")
        first, found = in_place.subn(lambda match: f"{match[0]}{DEFAULT}", first, count=1)
        unnamed += [] if found else [text]
    if unnamed:
        named = ", ".join(unnamed[:MOST_DEFAULTS]) + (" ..." if len(unnamed) > MOST_DEFAULTS else "")
        first = f"{first} (by default: {named})"
    return replace(finding, message=f"{first}{stop}{more}")


def yielded(check: Check, judge: Callable[[], Iterable[object]]) -> Iterator[Finding | Reach]:
    """What a judge of a check yields, as long as reports can tell it. Standard output is the report's, not a judge's.

    Raises :class:`TypeError` or :class:`msgspec.ValidationError` for what is no finding of this check."""
    with contextlib.redirect_stdout(sys.stderr):
        for item in judge():
            if not isinstance(item, Finding | Reach):
                raise TypeError(f"{check.code} yielded {item!r:.80}, which is neither a Finding nor a Reach")
            if isinstance(item, Finding) and item.code != check.code:
                raise TypeError(f"{check.code} yielded a finding of {item.code}")
            # A dataclass takes anything for a field; what does not fit its type would break a report.
            yield msgspec.convert(msgspec.to_builtins(item), type(item))


def first_missing(case: Case, needs: Iterable[str]) -> Absent | Unknown | None:
    """What keeps a detector from running. Absence first: it settles the question, a missing fact leaves it open."""
    needs = tuple(needs)
    if (other := _other_engine(case, needs)) is not None:
        return other
    looked = [_for_the_launch(case, need, lookup(case, need)) for need in needs]
    absent = next((x for x in looked if isinstance(x, Absent)), None)
    return absent or next((x for x in looked if isinstance(x, Unknown)), None)


def _other_engine(case: Case, needs: Iterable[str]) -> Absent | None:
    """That the launch samples with another engine than the vLLM which a detector judges it for."""
    sections = {tuple(need.split(".")[:2]) for need in needs}
    if case.plan is None or ("packages", ENGINE) not in sections or all(head != "plan" for head, *_ in sections):
        return None
    engine = case.plan.value("rollout.backend", ENGINE)
    if engine == ENGINE:
        return None
    return Absent(f"the launch samples with {engine}, not with vLLM")


def _for_the_launch(case: Case, need: str, found: object) -> object:
    """What was looked up, where a launch is judged in an environment without its engine: that one lacks a package, too,
    says nothing of the one that it will run in."""
    section, _, name = need.partition(".")
    if not isinstance(found, Absent) or section != "packages" or case.plan is None or case.role is not None:
        return found
    packages = case.packages
    if packages is None or find_all(packages, ENGINE) or case.plan.value("rollout.backend", ENGINE) != ENGINE:
        return found
    how = f"--python PATH of the launch's environment, or --assume {name.partition('.')[0]}==VERSION"
    return Unknown(reason=f"{found.reason} in {packages.prefix or 'this environment'}", how=how)


def _with_how(reason: str, how: str | None) -> str:
    return f"{reason} ({how})" if how else reason
