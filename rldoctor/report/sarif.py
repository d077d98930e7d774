"""SARIF 2.1.0, for code-scanning front ends. https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from rldoctor import __version__
from rldoctor.model import Evidence, Finding, Report, Severity

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report) -> str:
    """One SARIF run with a rule for every check and a result for every finding."""
    rules = [{"id": r.code, "name": r.name, "shortDescription": {"text": r.name}} for r in report.results]
    driver = {"name": "rldoctor", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(finding) for finding in report.findings]}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=1)


def _result(finding: Finding) -> dict[str, Any]:
    fixes = "".join(f"\nFix: {fix.title}" for fix in finding.fixes)
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": LEVELS[finding.severity],
        "message": {"text": finding.message + fixes},
        "properties": {"grade": finding.grade.value},
    }
    locations = [_location(e) for e in finding.evidence if e.source is not None and e.line is not None]
    # A result needs no place, but a viewer that gets one shows it there.
    return {**result, "locations": locations} if locations else result


def _location(evidence: Evidence) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": quote(evidence.source or "")}, "region": {"startLine": evidence.line}}
    return {"physicalLocation": place, "message": {"text": evidence.text}}
