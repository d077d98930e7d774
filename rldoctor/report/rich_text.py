"""The report for a person: findings first, then what was not checked and why."""

from __future__ import annotations

from functools import partial

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rldoctor.model import CheckResult, Evidence, Finding, Fix, Incident, Outcome, Report, Severity
from rldoctor.report.console import drawn

COLOUR = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
MARK = {
    Outcome.PASS: ("✓", "green"),
    Outcome.NOT_APPLICABLE: ("-", "dim"),
    Outcome.NOT_CHECKED: ("?", "yellow"),
    Outcome.CRASHED: ("!", "magenta"),
}


def render(report: Report, terminal: bool | None = None) -> str:
    """The report as text, with colours on a ``terminal`` (None: where standard output is one)."""
    return drawn(partial(print_report, report=report), terminal)


def print_report(console: Console, report: Report) -> None:
    """Prints the report on a console."""
    console.print(Text(report.target, style="bold"))
    if report.incident is not None:
        _print_incident(console, report.incident)
    for finding in report.findings:
        _print_finding(console, finding)
    console.print()
    # What a log does not show is the rule there, and what an environment passes is news.
    shown = (Outcome.CRASHED,) if report.incident is not None else (Outcome.PASS, Outcome.CRASHED)
    for result in report.results:
        if result.outcome in shown:
            _print_row(console, result)
    for outcome in () if report.incident is not None else (Outcome.NOT_CHECKED, Outcome.NOT_APPLICABLE):
        _print_grouped(console, report, outcome)
    for note in report.notes:
        console.print(Text(f"note: {note}", style="dim"))


def _print_incident(console: Console, incident: Incident) -> None:
    """What happened, where and when, before what it means."""
    parts = [incident.kind]
    parts += [f"first failing rank {incident.first_rank}"] if incident.first_rank else []
    parts += [f"while {incident.stage}"] if incident.stage else []
    parts += [incident.framework] if incident.framework else []
    console.print(Text(", ".join(parts)))
    if incident.exception:
        _indented(console, Text(incident.exception.splitlines()[0]))
    for frame in incident.frames[-3:]:
        _indented(console, Text(frame, style="dim"))
    if incident.partial:
        console.print(Text(f"partial: {incident.partial}", style="yellow"))


def _print_finding(console: Console, finding: Finding) -> None:
    console.print()
    head = Text.assemble(
        (finding.severity.value, COLOUR[finding.severity]),
        (f" {finding.code} {finding.name}", "bold"),
        (f" ({finding.grade.value})", "dim"),
    )
    console.print(head)
    _indented(console, Text(finding.message))
    for case in finding.cases:
        _indented(console, Text(f"in {case}", style="dim"))
    for evidence in finding.evidence:
        _indented(console, Text(f"{_where(evidence)}{evidence.text}", style="dim"))
    for fix in finding.fixes:
        _print_fix(console, fix)
    if finding.url:
        _indented(console, Text(finding.url, style="blue"))


def _print_fix(console: Console, fix: Fix) -> None:
    proven = f"; proven by {fix.proven}" if fix.proven else ""
    _indented(console, Text(f"fix ({fix.applicability.value}{proven}): {fix.title}", style="green"))
    for edit in fix.edits:
        where = f"{edit.file}:{edit.line}  " if edit.file and edit.line else ""
        _verbatim(console, f"{where}{edit.spelled or f'{edit.option} = {edit.value}'}")
    for command in fix.commands:
        _verbatim(console, command)
    if fix.side_effects:
        _indented(console, Text(f"mind: {fix.side_effects}", style="dim"), 4)


def _print_row(console: Console, result: CheckResult) -> None:
    mark, colour = MARK[result.outcome]
    line = Text.assemble((f"{mark} {result.code} {result.name}", colour))
    if result.reason:
        line.append(f"  {result.reason}", style="dim")
    console.print(line)


def _print_grouped(console: Console, report: Report, outcome: Outcome) -> None:
    """One line for each reason, since a missing fact or package silences many checks at once."""
    by_reason: dict[str, list[str]] = {}
    for result in report.results:
        if result.outcome is outcome:
            by_reason.setdefault(result.reason or "", []).append(result.code)
    mark, colour = MARK[outcome]
    for reason, codes in by_reason.items():
        console.print(Text.assemble((f"{mark} {outcome.value}: ", colour), reason, (f"  {' '.join(codes)}", "dim")))


def _indented(console: Console, text: Text, by: int = 2) -> None:
    console.print(Padding(text, (0, 0, 0, by), expand=False))


def _verbatim(console: Console, text: str) -> None:
    """What is there to be copied: a line break of ours inside it would come along."""
    for line in text.splitlines():
        console.print(Text(f"    {line}"), soft_wrap=True)


def _where(evidence: Evidence) -> str:
    if evidence.source is None:
        return ""
    return f"{evidence.source}:{evidence.line}: " if evidence.line else f"{evidence.source}: "
