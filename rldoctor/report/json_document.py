"""The JSON report: the contract with programs and tests. Keys are only ever added within a ``schema_version``; its
schema is published as ``docs/report.schema.json``."""

from __future__ import annotations

from dataclasses import fields

import msgspec

from rldoctor import __version__
from rldoctor.model import CheckResult, Finding, Ignored, Incident, Outcome, Report, Verdict
from rldoctor.project import fingerprint
from rldoctor.records import dataclass
from rldoctor.report import words
from rldoctor.report.summary import summarise

SCHEMA_VERSION = 1


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """What made the report."""

    name: str = "rldoctor"
    version: str


@dataclass(frozen=True, kw_only=True)
class Told(Finding):
    """A finding with what it is known by from run to run."""

    fingerprint: str


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check: how far a pass reached, or what is missing, is its ``reason``."""

    code: str
    name: str
    outcome: Outcome
    reason: str | None
    traceback: str | None = None


class EarlierRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the log has before the last one, where all were asked for."""

    findings: tuple[Told, ...]
    incident: Incident | None


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report: findings with the most likely root cause first, then one row for every check. ``summary`` counts
    findings by severity and checks by outcome; ``fixed`` are fingerprints of the baseline that are found no more;
    ``incident`` is what a log shows, or a run that stands still; ``earlier_runs`` are those before it, the oldest
    first."""

    schema_version: int
    tool: Tool
    target: str
    verdict: Verdict
    findings: tuple[Told, ...]
    checks: tuple[Row, ...]
    summary: dict[str, int]
    ignored: tuple[Ignored, ...]
    notes: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    incident: Incident | None = None
    earlier_runs: tuple[EarlierRun, ...] = ()


def render(report: Report) -> str:
    """The report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(document(report)), indent=1).decode()


def document(report: Report) -> Document:
    """The report in the form that is published."""
    return Document(
        schema_version=SCHEMA_VERSION,
        tool=Tool(version=__version__),
        target=report.target,
        verdict=words.verdict_of(report),
        findings=_told(report),
        checks=tuple(map(_row, report.results)),
        summary=summarise(report),
        ignored=report.ignored,
        notes=report.notes,
        fixed=report.fixed,
        incident=report.incident,
        earlier_runs=tuple(EarlierRun(findings=_told(run), incident=run.incident) for run in report.earlier_runs),
    )


def schema() -> str:
    """The JSON Schema of the report, as it is published."""
    from rldoctor.schema import components, published

    return published("report", components(Document))


def _told(report: Report) -> tuple[Told, ...]:
    found = report.findings
    marks = fingerprint.of((*found, *(one.finding for one in report.ignored)), fingerprint.repository())
    return tuple(_reported(one, mark) for one, mark in zip(found, marks, strict=False))


def _reported(finding: Finding, mark: str) -> Told:
    return Told(**{one.name: getattr(finding, one.name) for one in fields(Finding)}, fingerprint=mark)


def _row(result: CheckResult) -> Row:
    return Row(
        code=result.code,
        name=result.name,
        outcome=result.outcome,
        reason=result.reason,
        traceback=result.traceback,
    )
