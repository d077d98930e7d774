"""Workflow commands of GitHub Actions: findings as annotations on the lines they are about.
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands"""

from __future__ import annotations

from rldoctor.model import Evidence, Finding, Fix, Report, Severity, State
from rldoctor.report import words

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report) -> str:
    """One annotation for every finding, one for what could not be judged and a notice for every earlier run that was
    not well, which fails nothing; then the summary as plain text."""
    lines = [_annotation(finding, report) for finding in report.findings]
    lines += [_notice(name, run, report) for name, run in words.named_earlier(report) if not words.is_well(run)]
    if words.verdict_of(report).state is State.NOT_JUDGED:
        lines.append(f"::error {_where(report)}title=rldoctor::{_message(words.headline(report))}")
    # A line of its own would be a command where it began with two colons.
    return "\n".join([*lines, f"rldoctor: {' '.join(words.summed_up(report).split())}"])


def _annotation(finding: Finding, report: Report) -> str:
    where = _placed(words.located(finding), report)
    fixes = "".join(f"\n{_fix(fix)}" for fix in finding.fixes)
    title = _property(f"{finding.code} {finding.name}")
    return f"::{COMMANDS[finding.severity]} {where}title={title}::{_message(finding.message + fixes)}"


def _notice(name: str, run: Report, report: Report) -> str:
    at = words.located(run.findings[0]) if run.findings else None
    return f"::notice {_placed(at, report)}title={_property(f'rldoctor, {name}')}::{_message(words.headline(run))}"


def _fix(fix: Fix) -> str:
    copied = "; ".join(words.copied(fix))
    return f"fix: {fix.title}{f': {copied}' if copied else ''}"


def _where(report: Report) -> str:
    return _placed(None, report)


def _placed(at: Evidence | None, report: Report) -> str:
    """The properties of a line; of the one that stands for all where there is none."""
    place = at or report.place
    return f"file={_property(words.shown_path(place.source or ''))},line={place.line or 1}," if place else ""


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
