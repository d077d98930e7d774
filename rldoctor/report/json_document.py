"""The JSON report: the contract with programs and tests. Keys are only ever added within a ``schema_version``."""

from __future__ import annotations

from typing import Any

import msgspec

from rldoctor import __version__, verdict
from rldoctor.model import CheckResult, Report
from rldoctor.report.summary import summarise

SCHEMA_VERSION = 1


def render(report: Report) -> str:
    """The report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(document(report)), indent=1).decode()


def document(report: Report) -> dict[str, Any]:
    """The report as plain values: findings with the most likely root cause first, then one row for every check."""
    incident = {"incident": msgspec.to_builtins(report.incident)} if report.incident else {}
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "rldoctor", "version": __version__},
        "target": report.target,
        "verdict": msgspec.to_builtins(report.verdict or verdict.over(report, "error").verdict),
        **incident,
        "findings": msgspec.to_builtins(report.findings),
        "checks": [_row(result) for result in report.results],
        "summary": summarise(report),
        "notes": list(report.notes),
    }


def _row(result: CheckResult) -> dict[str, Any]:
    row = {"code": result.code, "name": result.name, "outcome": result.outcome.value, "reason": result.reason}
    return {**row, "traceback": result.traceback} if result.traceback else row
