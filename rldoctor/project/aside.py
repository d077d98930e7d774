"""Sets findings aside that a project lives with: its settings ignore them, or its baseline has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rldoctor.model import CheckResult, Finding, Ignored, Outcome, Report

Aside = Callable[[Finding], Ignored | None]


def set_aside(report: Report, ignored: Aside) -> Report:
    """The report with those findings apart for which ``ignored`` has a reason. A check of which none is left is not
    applicable."""
    ranked = report.ranked
    apart = tuple(found for found in map(ignored, report.findings) if found is not None)
    return replace(
        report,
        results=tuple(_without(result, ignored) if result.findings else result for result in report.results),
        ranked=ranked and tuple(finding for finding in ranked if ignored(finding) is None),
        ignored=(*report.ignored, *apart),
    )


def _without(result: CheckResult, ignored: Aside) -> CheckResult:
    said = [(finding, ignored(finding)) for finding in result.findings]
    kept = tuple(finding for finding, one in said if one is None)
    if kept or result.outcome is Outcome.CRASHED:
        return replace(result, findings=kept)
    reason = next(one.reason for _, one in said if one is not None)
    return replace(result, outcome=Outcome.NOT_APPLICABLE, findings=(), reason=f"ignored: {reason}")
