"""Workflow commands of GitHub Actions: findings as annotations on the lines they are about."""

from __future__ import annotations

from rldoctor.model import Finding, Report, Severity
from rldoctor.report.summary import sentence

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report) -> str:
    """One annotation for every finding, then the summary as plain text."""
    return "\n".join([*(_annotation(finding) for finding in report.findings), f"rldoctor: {sentence(report)}"])


def _annotation(finding: Finding) -> str:
    place = next((e for e in finding.evidence if e.source and e.line), None)
    where = f"file={_property(place.source or '')},line={place.line}," if place else ""
    fixes = "".join(f"\nfix: {fix.title}" for fix in finding.fixes)
    title = _property(f"{finding.code} {finding.name}")
    return f"::{COMMANDS[finding.severity]} {where}title={title}::{_message(finding.message + fixes)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
