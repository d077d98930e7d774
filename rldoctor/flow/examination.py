"""The flow of a check: what it has to collect, how the facts are judged, and the report that comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import Check
from rldoctor.catalogue.registry import Registry
from rldoctor.edits import installing
from rldoctor.flow.effective import with_effective
from rldoctor.flow.failed_runs import explained
from rldoctor.flow.probe import AnyProbe
from rldoctor.judge import join_cases, judge
from rldoctor.model import CheckResult, Evidence, Finding, Grade, Missing, Outcome, Report, Severity
from rldoctor.plan.model import RolloutPlan


def sections(checks: Iterable[Check], probes: Iterable[AnyProbe]) -> set[str]:
    """The sections of the case that the checks and probes read."""
    needs = [n for check in checks for detector in check.detectors for n in detector.needs]
    needs += [n for probe in probes for n in (*probe.needs, *probe.reads)]
    return {need.split(".")[0] for need in needs} - {"observations"}


def report(case: Case, checks: Iterable[Check], registry: Registry, notes: Iterable[str] = ()) -> Report:
    """Judges the case; the logs of live runs that failed are judged by the signatures of the same checks."""
    asked = list(checks)
    case = with_effective(case)
    case, logged = explained(case, asked, registry.checks.values())
    results = tuple(_with_logged(result, logged) for result in judge(asked, case, registry.checks.values()))
    # A code that only logs show has no detector, and so no result yet.
    only = {finding.code: finding.name for finding in logged} if logged else {}
    missing = (code for code in only if all(result.code != code for result in results))
    nothing = (CheckResult(code=code, name=only[code], outcome=Outcome.PASS) for code in missing)
    results += tuple(_with_logged(result, logged) for result in nothing)
    results = _refused_once(results, case)
    plan = case.plan
    place = Evidence(text=plan.entry, source=plan.file, line=plan.line) if plan is not None else None
    python = case.packages.executable if case.packages is not None else None
    results = tuple(installing.by(python, result) for result in results)
    judged = Report(
        target=describe(case),
        results=results,
        notes=(*notes, *_of_plan(case)),
        place=place,
        folder=str(Path(case.target).parent) if plan is not None and case.target else None,
    )
    if case.plan is None:
        return judged
    from rldoctor.edits.fixes import spelled_report

    return spelled_report(judged, case.plan)


def _refused_once(results: tuple[CheckResult, ...], case: Case) -> tuple[CheckResult, ...]:
    """The results without what was followed in a framework's source where another error judges a setting that the
    refusal reads: that one has a fix."""
    for framework in case.links["frameworks"] if case.links is not None else ():
        refusal = framework.get("refusal")
        if refusal is None:
            continue
        place = (refusal["file"], refusal["line"])
        reads = {name for read in refusal["reads"] for name in (read, read.rpartition(".")[2])}
        found = (finding for result in results for finding in result.findings if not _cites(finding, place))
        errors = (finding for finding in found if finding.severity is Severity.ERROR)
        other = next((finding for finding in errors if reads & _judged_settings(finding, case.plan)), None)
        if other is not None:
            why = f"{framework['name']} refuses the launch in {place[0]}:{place[1]}, for what {other.code} says"
            results = tuple(_without(result, place, why) for result in results)
    return results


def _cites(finding: Finding, place: tuple[str, int]) -> bool:
    return any((evidence.source, evidence.line) == place for evidence in finding.evidence)


def _judged_settings(finding: Finding, plan: RolloutPlan | None) -> set[str]:
    """The settings that a finding cites or whose fixes change them, by the names that a framework's code has for
    them."""
    edited = {edit.option for fix in finding.fixes for edit in fix.edits}
    changed = (plan.settings[option].key for option in edited if plan is not None and option in plan.settings)
    names = {*(evidence.setting for evidence in finding.evidence), *changed} - {None}
    return {name.lstrip("-").replace("-", "_") for name in names if name is not None}


def _without(result: CheckResult, place: tuple[str, int], why: str) -> CheckResult:
    """The result without the findings that cite a place; where no other is left it is open, and ``why`` says so."""
    left = tuple(finding for finding in result.findings if not _cites(finding, place))
    if left or not result.findings:
        return replace(result, findings=left)
    return replace(result, findings=(), outcome=Outcome.NOT_CHECKED, reason=why)


def _of_plan(case: Case) -> Iterator[str]:
    """What the reader of the launch noted: what it did not follow, took for another file, or was given twice."""
    named = False
    for note in case.plan.notes if case.plan is not None else ():
        # The verdict's own line has the first part that could not be read.
        if note.unread and not named:
            named = True
            continue
        place = f"{Path(note.file).name}:{note.line}: " if note.file and note.line else ""
        yield f"{place}{note.text}"


def _with_logged(result: CheckResult, logged: list[Finding]) -> CheckResult:
    """A result with what the logs say of its code: a finding, or the proof of one that was only declared."""
    found = tuple(finding for finding in logged if finding.code == result.code)
    if not found:
        return result
    if not result.findings:
        return replace(result, outcome=Outcome.FINDINGS, reason=None, findings=found)
    findings = list(result.findings)
    for one in found:
        # Two packages to install are two causes, whatever their code.
        alike = [place for place, finding in enumerate(findings) if not _apart(one, finding)]
        if not alike:
            findings.append(one)
            continue
        place = max(alike, key=lambda place: len(_words(one) & _words(findings[place])))
        known = findings[place]
        grade = Grade.REPRODUCED if one.grade is Grade.REPRODUCED else known.grade
        findings[place] = replace(known, grade=grade, evidence=(*known.evidence, *one.evidence))
    return replace(result, findings=tuple(findings))


def _apart(one: Finding, other: Finding) -> bool:
    """Whether both are mended by commands, and by none that the other names, too."""
    mine, others = ({command for fix in finding.fixes for command in fix.commands} for finding in (one, other))
    return bool(mine and others) and not mine & others


def _words(finding: Finding) -> set[str]:
    return set(finding.message.split())


def join(reports: list[Report]) -> Report:
    """One report out of one for each environment, launch or bundle: a check says what its gravest case says, a finding
    that several share is reported once."""
    if len(reports) == 1:
        return reports[0]
    by_code: dict[str, list[CheckResult]] = {}
    names, shared = _told_once([one.target for one in reports])
    for one in reports:
        for result in one.results:
            findings = tuple(replace(f, cases=_where(f, reports, names)) for f in result.findings)
            by_code.setdefault(result.code, []).append(replace(result, findings=findings))
    folders = {one.folder for one in reports}
    return Report(
        target="; ".join(part for part in (*names, shared) if part),
        results=tuple(join_cases(results) for results in by_code.values()),
        notes=tuple(dict.fromkeys(note for one in reports for note in one.notes)),
        place=reports[0].place if reports else None,
        folder=folders.pop() if len(folders) == 1 else None,
        ignored=tuple(dict.fromkeys(one for report in reports for one in report.ignored)),
        missing=tuple(dict.fromkeys(one for report in reports for one in _missing_in(report, reports))),
        exhibits=tuple(one for report in reports for one in report.exhibits),
    )


def _missing_in(report: Report, reports: list[Report]) -> Iterator[Missing]:
    """What one of several reports did not reach, with its target where others did."""
    for missing in report.missing:
        shared = all(missing in other.missing for other in reports)
        place = report.place
        where = report.target if place is None else f"{place.source}:{place.line}"
        reported = shared or missing.what.startswith(f"{where}:")
        yield missing if reported else replace(missing, what=f"{where}: {missing.what}")


def _told_once(targets: list[str]) -> tuple[list[str], str]:
    """What names each of several targets, and what all of them end with: the machine."""
    parts = [target.split(", ") for target in targets]
    most = min(map(len, parts), default=1) - 1
    count = next((n for n in range(most, 0, -1) if len({tuple(one[-n:]) for one in parts}) == 1), 0)
    shared = parts[0][-count:] if count else []
    return [", ".join(one[: len(one) - count]) for one in parts], ", ".join(shared)


def _where(finding: Finding, reports: list[Report], names: list[str]) -> tuple[str, ...]:
    """The names of the targets that have a finding, where not all have it."""
    having = tuple(name for one, name in zip(reports, names, strict=True) if finding in one.findings)
    return having if len(having) < len(reports) else ()


def describe(case: Case) -> str:
    """One line that names what was examined."""
    parts = [part for part in (case.role, case.target) if part]
    if case.packages is not None:
        parts += [f"Python {case.packages.python}"] if not case.packages.foreign else []
        if case.plan is not None and case.plan.version is not None and case.plan.framework.lower() != "vllm":
            parts.append(f"{case.plan.framework} {case.plan.version}")
        engine = case.plan.value("rollout.backend", "vllm") if case.plan is not None else "vllm"
        found = (find(case.packages, name) for name in (str(engine), "torch", "transformers"))
        parts += [f"{d.name} {d.version}" for d in found if d is not None]
    if case.gpus is not None:
        parts.append(f"{len(case.gpus.devices)}x {case.gpus.devices[0].name}" if case.gpus.devices else "no GPU")
    return ", ".join(parts) or "this machine"
