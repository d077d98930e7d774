"""Puts the edits of fixes into the launch's own words, and applies them to its files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rldoctor.edits.edit import Edited, apply
from rldoctor.frameworks import by_name
from rldoctor.frameworks.spelled import Spelling
from rldoctor.frameworks.spelling import unspelled
from rldoctor.model import Applicability, Change, CheckResult, Edit, Finding, Fix, Report
from rldoctor.plan.model import RolloutPlan


def unread_plan(framework: str) -> RolloutPlan | None:
    """A plan of a launch whose file is not at hand, so that edits can at least be spelled; None for a framework that
    has no dialect."""
    dialect = by_name(framework)
    return None if dialect is None else RolloutPlan(framework=dialect.name, dialect=dialect.name, file="", entry="")


def in_its_words(report: Report, plan: RolloutPlan | None = None, *, placed: bool = False) -> Report:
    """The report on a run, spelled for the ``plan`` of its launch, or for the framework that it shows."""
    framework = report.incident.framework if report.incident is not None else None
    return spelled_report(report, plan or (unread_plan(framework) if framework else None), placed=placed)


def spelled_report(report: Report, plan: RolloutPlan | None, *, placed: bool = True) -> Report:
    """The report with every edit spelled for the plan's framework, and without the fixes that it has no words for;
    without a plan in plain words. ``placed`` is false where the plan's files are none that an edit could change: a
    log."""
    ranked = report.ranked and tuple(_spelled_finding(finding, plan, placed) for finding in report.ranked)
    results = tuple(spelled(result, plan, placed=placed) for result in report.results)
    return replace(report, results=results, ranked=ranked)


def spelled(result: CheckResult, plan: RolloutPlan | None, *, placed: bool = True) -> CheckResult:
    """The same for one result."""
    return replace(result, findings=tuple(_spelled_finding(finding, plan, placed) for finding in result.findings))


def applied(found: Iterable[tuple[RolloutPlan, Iterable[Finding]]]) -> Edited:
    """The files of the plans with the first safe fix of each of their findings made, in memory."""
    spellings = []
    for plan, findings in found:
        for finding in findings:
            fix = next((fix for fix in finding.fixes if _can_apply(fix)), None)
            spellings += _spellings(fix.edits, plan) if fix is not None else []
    return apply(spellings)


def with_changes(report: Report, plan: RolloutPlan) -> Report:
    """The report with the changes of lines that each fix makes which can be applied."""

    def of(fix: Fix) -> Fix:
        if not _can_apply(fix):
            return fix
        edited = apply(_spellings(fix.edits, plan))
        return fix if edited.refused else replace(fix, changes=tuple(changes(edited)))

    def finding(one: Finding) -> Finding:
        return replace(one, fixes=tuple(of(fix) for fix in one.fixes))

    results = (replace(result, findings=tuple(map(finding, result.findings))) for result in report.results)
    return replace(report, results=tuple(results), ranked=report.ranked and tuple(map(finding, report.ranked)))


def changes(edited: Edited) -> Iterator[Change]:
    """What differs between the old and the new texts of files, line by line."""
    for name in edited.changed:
        old, new = (texts[name].splitlines(keepends=True) for texts in (edited.before, edited.after))
        for kind, first, end, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind != "equal":
                yield Change(file=name, first=first + 1, end=end + 1, text="".join(new[start:stop]))


def _can_apply(fix: Fix) -> bool:
    return fix.applicability is Applicability.SAFE and bool(fix.edits) and all(edit.file for edit in fix.edits)


def _spelled_finding(finding: Finding, plan: RolloutPlan | None, placed: bool) -> Finding:
    fixes = [fix for fix in (_spelled_fix(one, plan, placed) for one in finding.fixes) if fix is not None]
    if fixes:  # the one that it was an alternative to may be gone
        fixes[0] = replace(fixes[0], title=fixes[0].title.removeprefix("or "))
    return replace(finding, fixes=tuple(fixes))


def _spelled_fix(fix: Fix, plan: RolloutPlan | None, placed: bool) -> Fix | None:
    spellings = list(zip(fix.edits, _spellings(fix.edits, plan), strict=True))
    # Hard-coded by the framework: advice that nobody can follow is left out. Of a file that was not read nobody knows.
    if plan is not None and plan.file and any(s.plain for _, s in spellings):
        return None
    edits = tuple(
        replace(edit, spelled=s.text, file=s.file if placed else None, line=s.line if placed else None)
        for edit, s in spellings
    )
    return replace(fix, edits=edits)


def _spellings(edits: Iterable[Edit], plan: RolloutPlan | None) -> list[Spelling]:
    """The words of each edit of a fix. Where two change one setting of the launch (two sizes in one text), both are
    the text with both changes."""
    found: list[Spelling] = []
    for edit in edits:
        spelling = _spelling(edit, plan)
        place = _place(spelling)
        found = [spelling if place is not None and _place(one) == place else one for one in found]
        found.append(spelling)
        if plan is not None and spelling.write is not None:
            value = spelling.write.value
            now = (replace(one, value=value) if (one.key, one.file, one.line) == place else one for one in plan.given)
            plan = replace(plan, given=tuple(now))
    return found


def _place(spelling: Spelling) -> tuple[str, str, int] | None:
    """The setting whose whole value an edit writes, None where it writes less, or another name."""
    write = spelling.write
    whole = write is not None and not (write.path or write.append or write.remove or write.rename)
    return (write.key, write.file, write.line) if write is not None and whole else None


def _spelling(edit: Edit, plan: RolloutPlan | None) -> Spelling:
    dialect = by_name(plan.dialect or plan.framework) if plan is not None else None
    if plan is None or dialect is None:
        return unspelled(edit, "the framework is not known")
    return dialect.spell(edit, plan)
