"""Markdown, for issue trackers and job summaries."""

from __future__ import annotations

from rldoctor.model import Finding, Outcome, Report
from rldoctor.report.summary import sentence


def render(report: Report) -> str:
    """Findings with evidence and fixes, then what could not be judged."""
    lines = [f"# rldoctor: {sentence(report)}", "", f"Examined: {report.target}"]
    for finding in report.findings:
        lines += ["", *_finding(finding)]
    open_questions = [r for r in report.results if r.outcome in (Outcome.NOT_CHECKED, Outcome.CRASHED)]
    if open_questions:
        lines += ["", "## Not judged", ""]
        lines += [f"- {r.code} {r.name} ({r.outcome.value}): {r.reason or 'no reason given'}" for r in open_questions]
    lines += ["", *(f"Note: {note}" for note in report.notes)] if report.notes else []
    return "\n".join(lines) + "\n"


def _finding(finding: Finding) -> list[str]:
    lines = [f"## {finding.severity.value}: {finding.code} {finding.name}", "", finding.message, ""]
    lines += [f"- in {case}" for case in finding.cases]
    for evidence in finding.evidence:
        place = f"{evidence.source}:{evidence.line}" if evidence.line else evidence.source
        lines.append(f"- {finding.grade.value}: {evidence.text}" + (f" ({place})" if place else ""))
    for fix in finding.fixes:
        spelled = [edit.spelled or f"{edit.option} = {edit.value}" for edit in fix.edits]
        lines += ["", f"Fix ({fix.applicability.value}): {fix.title}"]
        lines += ["", "```", *spelled, *fix.commands, "```"] if spelled or fix.commands else []
    return [*lines, *(["", finding.url] if finding.url else [])]
