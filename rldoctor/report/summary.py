"""Counts over a report, and the one line that sums it up."""

from __future__ import annotations

from collections import Counter

from rldoctor.model import Outcome, Report, Severity


def summarise(report: Report) -> dict[str, int]:
    """How many findings of each severity and checks of each outcome there are."""
    severities = Counter(finding.severity for finding in report.findings)
    outcomes = Counter(result.outcome for result in report.results)
    return {
        **{f"{severity.value}s": severities[severity] for severity in Severity},
        **{outcome.value: outcomes[outcome] for outcome in Outcome},
    }


def sentence(report: Report) -> str:
    """The summary in one line."""
    counts = summarise(report)
    found = ", ".join(
        f"{counts[k]} {k if counts[k] != 1 else k[:-1]}" for k in ("errors", "warnings", "notes") if counts[k]
    )
    rest = ", ".join(f"{counts[o.value]} {o.value}" for o in Outcome if o is not Outcome.FINDINGS and counts[o.value])
    missing = f"; cannot judge: {'; '.join(map(str, report.missing))}" if report.missing else ""
    return f"{found or 'no findings'}; checks: {rest or 'none'}{missing}"
