"""SARIF 2.1.0, for code-scanning front ends. https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html

GitHub refuses a file with a result that has no location, or one outside the repository, and matches results between
runs by their fingerprints: https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rldoctor import __version__
from rldoctor.catalogue import registry
from rldoctor.model import Change, CheckResult, Evidence, Finding, Fix, Ignored, Report, Severity
from rldoctor.project import fingerprint
from rldoctor.report import words

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
# The name that GitHub and others give to the root of the repository.
ROOT = "%SRCROOT%"
# The files that stand for an environment that no launch uses, where a project has one.
_STANDING_FOR_ALL = ("pyproject.toml", "requirements.txt", "setup.py", "README.md")
_URL = re.compile(r"https?://[^\s)>\]]+")


def render(report: Report) -> str:
    """One SARIF run with a rule for every check and a result for every finding, ignored ones suppressed. Findings of a
    log's earlier runs are notes, which no gate fails on, in the same run: code scanning takes one of a tool."""
    return json.dumps(_Run(report, fingerprint.repository()).document(), indent=1)


class _Run:
    def __init__(self, report: Report, root: Path) -> None:
        self.report = report
        self.root = root

    def document(self) -> dict[str, Any]:
        findings: list[Finding | Ignored] = [*self.report.findings, *self.report.ignored]
        before = [(name, one) for name, run in words.named_earlier(self.report) for one in run.findings]
        # Those of the last run come first: they keep the fingerprints that they have where it alone is judged.
        every = (*findings, *(one for _, one in before))
        marks = fingerprint.of((one.finding if isinstance(one, Ignored) else one for one in every), self.root)
        results = [self.result(found, mark) for found, mark in zip(findings, marks, strict=False)]
        results += [self.earlier(*one, mark) for one, mark in zip(before, marks[len(findings) :], strict=True)]
        verdict = words.verdict_of(self.report)
        driver = {
            "name": "rldoctor",
            "semanticVersion": __version__,
            "rules": self.rules(),
        }
        run = {
            "tool": {"driver": driver},
            "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
            "columnKind": "unicodeCodePoints",
            "invocations": [self.invocation()],
            "results": results,
            "properties": {"verdict": verdict.state.value, "missing": [str(one) for one in verdict.missing]},
        }
        schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
        return {"$schema": schema, "version": "2.1.0", "runs": [run]}

    def rules(self) -> list[dict[str, Any]]:
        checks = registry.load().checks
        found = [*self.report.findings, *(ignored.finding for ignored in self.report.ignored)]
        found += [finding for run in self.report.earlier_runs for finding in run.findings]
        names = {r.code: r.name for r in self.report.results} | {f.code: f.name for f in found}
        return [self.rule(code, name, checks[code].doc if code in checks else "") for code, name in names.items()]

    def rule(self, code: str, name: str, doc: str) -> dict[str, Any]:
        title = doc.partition("\n")[0] or name
        rule: dict[str, Any] = {
            "id": code,
            "name": "".join(part.capitalize() for part in name.split("-")),
            "shortDescription": {"text": title},
            "fullDescription": {"text": title},
            "help": {"text": doc or name, "markdown": f"```\n{doc or name}\n```"},
            "properties": {"tags": [name]},
        }
        url = _URL.search(doc.partition("References")[2])
        return {**rule, "helpUri": url[0]} if url else rule

    def invocation(self) -> dict[str, Any]:
        crashed = [result for result in self.report.results if result.traceback]
        notices = [{"level": "note", "message": {"text": note}} for note in self.report.notes]
        notices += [
            {"level": "warning", "message": {"text": f"cannot judge: {missing}"}} for missing in self.report.missing
        ]
        invocation: dict[str, Any] = {"executionSuccessful": not crashed}
        return {**invocation, "toolExecutionNotifications": [*notices, *map(_crash, crashed)]}

    def result(self, found: Finding | Ignored, mark: str) -> dict[str, Any]:
        finding = found.finding if isinstance(found, Ignored) else found
        fixes = "".join(f"\nFix: {fix.title}" for fix in finding.fixes)
        cited = [e for e in finding.evidence if e.source and e.line]
        places = [e for e in cited if self.holds(e.source)]
        # A log, or an installed package: the message has what a location cannot.
        elsewhere = "".join(f"\n{e.source}:{e.line}: {e.text}" for e in cited if e not in places)
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "level": LEVELS[finding.severity],
            "message": {"text": finding.message + elsewhere + fixes},
            "locations": [self.location(places[0] if places else self.anywhere())],
            "partialFingerprints": {"finding/v1": mark},
            "properties": {"grade": finding.grade.value},
        }
        if len(places) > 1:
            related = [{**self.location(place), "id": number} for number, place in enumerate(places[1:], start=1)]
            result["relatedLocations"] = related
        changes = [
            self.fix(fix) for fix in finding.fixes if fix.changes and all(self.holds(one.file) for one in fix.changes)
        ]
        if changes:
            result["fixes"] = changes
        if isinstance(found, Ignored):
            until = f" (until {found.until})" if found.until else ""
            result["suppressions"] = [{"kind": "external", "justification": f"{found.reason}{until}"}]
        return result

    def earlier(self, name: str, finding: Finding, mark: str) -> dict[str, Any]:
        """A finding of a run before the last one, as a note: the verdict is about the last."""
        result = self.result(finding, mark)
        properties = {**result["properties"], "run": name, "severity": finding.severity.value}
        said = {"text": f"{name}: {result['message']['text']}"}
        return {**result, "level": LEVELS[Severity.NOTE], "message": said, "properties": properties}

    def anywhere(self) -> Evidence:
        """The place of what has none of its own."""
        if self.report.place is not None and self.holds(self.report.place.source):
            return self.report.place
        file = next((name for name in _STANDING_FOR_ALL if (self.root / name).is_file()), _STANDING_FOR_ALL[0])
        return Evidence(text=self.report.target, source=str(self.root / file), line=1)

    def location(self, place: Evidence) -> dict[str, Any]:
        physical = {"artifactLocation": self.artifact(place.source or ""), "region": {"startLine": place.line or 1}}
        return {"physicalLocation": physical, "message": {"text": place.text or "here"}}

    def holds(self, file: str | None) -> bool:
        """Whether a file is the repository's."""
        return self.relative(file or "") is not None

    def relative(self, file: str) -> str | None:
        """The path of a file below the root; None of one that lies elsewhere, or that is no file but a source."""
        path = Path(os.path.normpath(Path(file).absolute()))
        return path.relative_to(self.root).as_posix() if path != self.root and path.is_relative_to(self.root) else None

    def artifact(self, file: str) -> dict[str, str]:
        return {"uri": quote(self.relative(file) or Path(file).name), "uriBaseId": ROOT}

    def fix(self, fix: Fix) -> dict[str, Any]:
        by_file: dict[str, list[Change]] = {}
        for change in fix.changes:
            by_file.setdefault(change.file, []).append(change)
        changes = [
            {"artifactLocation": self.artifact(file), "replacements": [_replacement(one) for one in found]}
            for file, found in by_file.items()
        ]
        return {"description": {"text": fix.title}, "artifactChanges": changes}


def _crash(result: CheckResult) -> dict[str, Any]:
    said = {"text": f"{result.code} crashed: {result.reason}"}
    return {"level": "error", "message": said, "associatedRule": {"id": result.code}}


def _replacement(change: Change) -> dict[str, Any]:
    """Whole lines; an insertion deletes an empty region in front of its line."""
    region = {"startLine": change.first, "startColumn": 1, "endLine": change.end, "endColumn": 1}
    return {"deletedRegion": region, "insertedContent": {"text": change.text}}
