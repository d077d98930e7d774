"""The report for a person, on one screen: the answer, its evidence and its fix, then a count of the rest."""

from __future__ import annotations

import re
from pathlib import PurePath

from rldoctor.model import CheckResult, Evidence, Finding, Fix, Incident, Outcome, Report, Severity, State
from rldoctor.report import words
from rldoctor.report.detail import Detail
from rldoctor.report.page import Drawn, Page, Plain, is_plain
from rldoctor.report.summary import sentence

COLOUR = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
OF_STATE = {State.PASSED: "bold green", State.FINDINGS: "bold red", State.NOT_JUDGED: "bold magenta"}
MARK = {
    Outcome.PASS: ("✓", "green"),
    Outcome.NOT_APPLICABLE: ("-", "dim"),
    Outcome.NOT_CHECKED: ("?", "yellow"),
    Outcome.CRASHED: ("!", "magenta"),
}
# What one screen holds; -v shows the rest. What comes after the whole ones has its head, and before training its fix
# in one line.
MOST_WHOLE = 3
MOST_HEADS = 8
MOST_EVIDENCE = 3
LONGEST_EVIDENCE = 160
# The fix and another one. What another one costs, and of a run the first one, too, comes with -v.
MOST_FIXES = 2
LONGEST_EVIDENCE_OF_A_LOG = 120
# The folder that a person is in.
_HERE = PurePath()
# Where packages are, and where Ray unpacks what a job was submitted with.
_INSTALLED = re.compile(r"^\S*/(?:(?:site|dist)-packages|working_dir_files/_ray_pkg_\w+)/")


def render(report: Report, terminal: bool | None = None, detail: Detail = Detail.USUAL) -> str:
    """The report as text, with colours on a ``terminal`` (None: where standard output is one)."""
    if not terminal and is_plain():
        page = Plain()
        print_report(page, report, detail)
        return page.text
    from rldoctor.report.console import drawn

    return drawn(lambda console: print_report(Drawn(console), report, detail), terminal)


def print_report(page: Page, report: Report, detail: Detail = Detail.USUAL) -> None:
    """Prints the report on a page."""
    state = words.verdict_of(report).state
    findings = list(report.findings)
    if state is State.NOT_JUDGED or not findings or words.is_well(report):
        if detail is not Detail.FINDINGS or state is State.NOT_JUDGED:
            page.line((words.headline(report), OF_STATE[state]))
        for suspect in report.incident.suspects if report.incident is not None else ():
            _print_evidence(page, suspect, detail)
    _print_findings(page, report, findings, detail)
    if detail is Detail.FINDINGS:
        return
    for line in words.earlier(report):
        page.line((line, "dim"))
    if state is State.FINDINGS and report.missing:
        page.line((f"not judged: {'; '.join(str(missing) for missing in report.missing)}", "yellow"))
    for note in report.notes:
        page.line((f"note: {note}", "dim"))
    if detail is Detail.ALL:
        from rldoctor.report.pictures import print_pictures

        _print_rest(page, report)
        for one in report.exhibits:
            print_pictures(page.console, one)
    # The first line of a failed run names a line of its log.
    is_named = report.incident is not None and any(
        at is not None and words.is_in(at, report.target) for at in map(words.located, findings[:1])
    )
    judged = f"judged: {report.target}: " if findings and not words.is_well(report) and not is_named else ""
    unshown = sum(max(len(finding.fixes) - MOST_FIXES, 0) for finding in findings[: _whole(report, detail)])
    rest = sentence(report) if detail is Detail.ALL else words.rest(report, unshown)
    page.line((f"{judged}{rest}", "dim"))


def _whole(report: Report, detail: Detail) -> int:
    """How many findings are shown in full."""
    return len(report.findings) if detail is Detail.ALL else 1 if report.incident is not None else MOST_WHOLE


def _print_findings(page: Page, report: Report, findings: list[Finding], detail: Detail) -> None:
    """The findings, in full as far as one screen goes. In a log the first one is the answer and what failed after it
    one line."""
    incident = report.incident
    whole = _whole(report, detail)
    heads = len(findings) if detail is Detail.ALL else whole + MOST_HEADS
    for number, finding in enumerate(findings[:heads]):
        beside = number > 0 and incident is not None and incident.kind in ("crashed", "stalled")
        shown = words.beside(finding, findings[0]) if beside else words.head(finding, None if number else incident)
        page.line((shown, "dim" if beside else COLOUR[finding.severity]))
        if number < whole:
            if detail is Detail.ALL:
                _print_all_of(page, finding)
            else:
                _print_on_a_screen(page, finding, report)
        elif incident is None and finding.fixes:
            _print_in_one_line(page, finding.fixes[0], f"fix: {finding.fixes[0].title}", _effects(finding.fixes[0]))
        if number == 0 and incident is not None:
            _print_incident(page, incident, finding, detail)
    if len(findings) > heads:
        page.line((f"and {len(findings) - heads} more findings", "dim"))


def _print_all_of(page: Page, finding: Finding) -> None:
    page.line((f"{finding.name} ({finding.grade.value})", "dim"), indent=2)
    for case in finding.cases:
        page.line((f"in {case}", "dim"), indent=2)
    for evidence in finding.evidence:
        _print_evidence(page, evidence, Detail.ALL)
    for fix in finding.fixes:
        _print_fix(page, fix, _effects(fix))
    if finding.url:
        page.line((finding.url, "blue"), indent=2)


def _print_on_a_screen(page: Page, finding: Finding, report: Report) -> None:
    """What explains a finding, on the lines that a screen of 80 columns has for it. Nothing is said twice."""
    for case in finding.cases:
        page.line((f"in {case}", "dim"), indent=2)
    there = words.told_from(report)
    of_a_log = report.incident is not None
    longest = LONGEST_EVIDENCE_OF_A_LOG if of_a_log else LONGEST_EVIDENCE
    by_place: dict[str, list[str]] = {}
    # A log's lines stand in the order of the log, a launch's settings in that of their weight.
    shown = finding.evidence if of_a_log else finding.evidence[:MOST_EVIDENCE]
    for evidence in words.untold(finding, shown)[:MOST_EVIDENCE]:
        text = _INSTALLED.sub("", evidence.text) if of_a_log else evidence.text
        by_place.setdefault(words.source_from(evidence, there), []).append(_shortened(text, longest))
    for where, texts in by_place.items():
        for text in ["; ".join(texts)] if where else texts:
            page.line((f"{where}  {text}" if where else text, "dim"), indent=2)
    for number, fix in enumerate(finding.fixes[:MOST_FIXES]):
        if number == 0:
            _print_fix(page, fix, _unsaid(fix) if of_a_log else _effects(fix), there)
            continue
        same = fix.side_effects == finding.fixes[0].side_effects
        title = words.text_from(words.alternative(fix.title), there)
        _print_in_one_line(page, fix, title, "" if same else _unsaid(fix))


def _unsaid(fix: Fix) -> str:
    return " (-v: side effects)" if fix.side_effects else ""


def _effects(fix: Fix) -> str:
    return f"; side effects: {fix.side_effects}" if fix.side_effects else ""


def _shortened(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[:longest]}..."


def _print_evidence(page: Page, evidence: Evidence, detail: Detail) -> None:
    text = evidence.text if detail is Detail.ALL else _shortened(evidence.text, LONGEST_EVIDENCE)
    where = words.source(evidence)
    page.line((f"{where}  {text}" if where else text, "dim"), indent=2)


def _print_fix(page: Page, fix: Fix, more: str, there: PurePath = _HERE) -> None:
    """A fix with all that there is to copy, files told from ``there``; ``more`` ends the line of its title."""
    who = (words.applied(fix), f"proven: {fix.proven}" if fix.proven else "")
    said = "; ".join(part for part in who if part)
    page.line((f"fix{f' ({said})' if said else ''}: {words.text_from(fix.title, there)}{more}", "green"), indent=2)
    for edit in fix.edits:
        where = f"{words.path_from(edit.file, there)}:{edit.line}  " if edit.file and edit.line else ""
        page.verbatim(f"{where}{words.spelled(edit)}")
    for command in words.commands(fix):
        page.verbatim(command)


def _print_in_one_line(page: Page, fix: Fix, title: str, more: str) -> None:
    """A fix in one line, between its title as it is said here and what there is ``more``."""
    texts = words.copied(fix)
    # What a comment would swallow, or a line break cut, stands on lines of its own.
    joined = all("\n" not in text for text in texts) and not any(" # " in text for text in texts)
    how = f": {'; '.join(texts)}" if texts and joined else ""
    page.line((f"{title}{how}{more}", "green"), indent=2)
    for text in () if joined else texts:
        page.verbatim(text)


def _print_cascades(page: Page, incident: Incident) -> None:
    """What failed after the first failure: along the time where that is known, else one line each."""
    from rldoctor.report.lanes import timeline
    from rldoctor.report.pictures import print_lanes

    lanes = timeline(incident)
    if lanes is not None:
        print_lanes(page.console, lanes)
        return
    for cascade in incident.cascades:
        page.line((f"then: {cascade}", "dim"), indent=2)


def _print_incident(page: Page, incident: Incident, cause: Finding, detail: Detail) -> None:
    """What followed from the first failure, and where in the code that was."""
    if incident.cascades and detail is not Detail.ALL:
        first, *others = incident.cascades
        more = f", and {len(others)} more kind{'s' if len(others) > 1 else ''} of failure" if others else ""
        page.line((f"then: {words.followed(first, incident, cause)}{more}", "dim"), indent=2)
    if detail is Detail.ALL:
        _print_cascades(page, incident)
    frames = incident.frames if detail is Detail.ALL else incident.frames[-1:]
    own = incident.user_frame
    for frame in (*((own,) if own and own not in frames else ()), *frames):
        page.line((f"at {_INSTALLED.sub('', frame)}", "dim"), indent=2)
    if incident.dated and detail is Detail.ALL:
        page.line((f"the line numbers are those of {', '.join(incident.dated)}", "dim"), indent=2)
    if incident.partial:
        page.line((f"partial: {incident.partial}", "yellow"))


def _print_rest(page: Page, report: Report) -> None:
    """Every check that found nothing, and why."""
    for result in report.results:
        if result.outcome is Outcome.CRASHED or (result.outcome is Outcome.PASS and report.incident is None):
            _print_row(page, result)
    for outcome in (Outcome.NOT_CHECKED, Outcome.NOT_APPLICABLE):
        _print_grouped(page, report, outcome)
    for ignored in report.ignored:
        until = f" until {ignored.until}" if ignored.until else ""
        said = f"- ignored{until}: {ignored.reason}: {words.head(ignored.finding)}"
        page.line((said, "dim"))


def _print_row(page: Page, result: CheckResult) -> None:
    mark, colour = MARK[result.outcome]
    reason = ((f"  {result.reason}", "dim"),) if result.reason else ()
    page.line((f"{mark} {result.code} {result.name}", colour), *reason)
    if result.traceback:
        page.line((result.traceback.rstrip(), "dim"), indent=2)


def _print_grouped(page: Page, report: Report, outcome: Outcome) -> None:
    """One line for each reason, since a missing fact or package silences many checks at once."""
    by_reason: dict[str, list[str]] = {}
    # These have lines of their own.
    ignored = {one.finding.code for one in report.ignored}
    for result in report.results:
        if result.outcome is outcome and not (result.code in ignored and outcome is Outcome.NOT_APPLICABLE):
            by_reason.setdefault(result.reason or "", []).append(result.code)
    mark, colour = MARK[outcome]
    for reason, codes in by_reason.items():
        page.line((f"{mark} {outcome.value}: ", colour), (reason, ""), (f"  {' '.join(codes)}", "dim"))
