"""Counts over a report, and the one line that sums it up."""

from __future__ import annotations

from collections import Counter

from rldoctor.model import Outcome, Report, Severity

_SAID = {
    Outcome.PASS: "passed",
    Outcome.NOT_CHECKED: "not checked",
    Outcome.NOT_APPLICABLE: "not applicable",
    Outcome.CRASHED: "crashed",
}


def summarise(report: Report) -> dict[str, int]:
    """How many findings of each severity and checks of each outcome there are, and how many findings are ignored."""
    severities = Counter(finding.severity for finding in report.findings)
    outcomes = Counter(result.outcome for result in report.results)
    return {
        **{f"{severity.value}s": severities[severity] for severity in Severity},
        **{outcome.value: outcomes[outcome] for outcome in Outcome},
        "ignored": len(report.ignored),
    }


def found(report: Report) -> str:
    """How many findings of each severity there are."""
    counts = summarise(report)
    kinds = ((key, counts[key]) for key in ("errors", "warnings", "notes"))
    return ", ".join(f"{count} {key if count != 1 else key[:-1]}" for key, count in kinds if count) or "no findings"


def sentence(report: Report, *, asked: bool = False) -> str:
    """The summary in one line; only what was ``asked`` counts leaves out what did not apply."""
    counts = summarise(report)
    ignored = [f"{counts['ignored']} ignored"] if counts["ignored"] else []
    if report.incident is not None:  # what a log does not show is no answer to a question
        failed = report.incident.kind in ("crashed", "stalled")
        others = len(report.findings) - 1
        cause = f"1 cause and {others} finding{'s' if others > 1 else ''} beside it" if failed and others > 0 else ""
        return f"{cause or found(report)}; {', '.join([f'{len(report.results)} patterns looked for', *ignored])}"
    said = {outcome: text for outcome, text in _SAID.items() if not asked or outcome is not Outcome.NOT_APPLICABLE}
    parts = [f"{counts[outcome.value]} {text}" for outcome, text in said.items() if counts[outcome.value]]
    return f"{found(report)}; {', '.join([*parts, *ignored]) or 'no other check'}"
