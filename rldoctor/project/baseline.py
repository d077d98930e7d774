"""Findings that a project knows already: an earlier JSON report, against which only what is new fails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePath

import msgspec

from rldoctor.errors import InputError
from rldoctor.io import untrusted
from rldoctor.model import Evidence, Finding, Ignored, Outcome, Report
from rldoctor.project import fingerprint
from rldoctor.project.aside import set_aside
from rldoctor.records import dataclass

# Thousands of findings fit in; what is larger is another file.
MAX_BYTES = 16 * 1024 * 1024
NAME = "rldoctor-baseline.json"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a finding of the earlier report."""

    code: str
    name: str
    message: str
    fingerprint: str
    evidence: tuple[Evidence, ...] = ()

    def __str__(self) -> str:
        place = next((e for e in self.evidence if e.source and e.line), None)
        return f"{self.code} {self.name}" + (f" in {place.source}" if place is not None else "")


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int
    findings: tuple[Known, ...]


@dataclass(frozen=True)
class Baseline:
    """The findings of an earlier report, by their fingerprints."""

    file: Path
    known: dict[str, Known]


def load(file: Path) -> Baseline:
    """Reads a JSON report. Raises :class:`InputError` with one line for what is none."""
    where = f"baseline {file}"
    try:
        document = msgspec.json.decode(untrusted.read(file, MAX_BYTES), type=_Document)
    except FileNotFoundError:
        raise InputError(f"{where}: no such file; `rldoctor baseline` writes one") from None
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"{where}: not a JSON report of this release: {why}; `rldoctor baseline` writes one"
        ) from error
    return Baseline(file, {finding.fingerprint: finding for finding in document.findings})


def against(report: Report, baseline: Baseline, files: Iterable[str]) -> Report:
    """The report with what the baseline has set aside, and what of it is gone said. ``files`` are those that the
    launches were read from: a finding in another file was not looked for, and is not gone."""
    root = fingerprint.repository()
    found = (*report.findings, *(one.finding for one in report.ignored))
    marks = list(zip(found, fingerprint.of(found, root), strict=True))
    name = baseline.file.name

    def known(finding: Finding) -> Ignored | None:
        mark = next((mark for one, mark in marks if one == finding), None)
        return Ignored(finding=finding, reason=f"known, in {name}") if mark in baseline.known else None

    here = {mark for _, mark in marks}
    read = {Path(file).absolute() for file in files}
    judged = {result.code for result in report.results if result.outcome not in (Outcome.NOT_CHECKED, Outcome.CRASHED)}
    fixed = [
        one
        for one in baseline.known.values()
        if one.fingerprint not in here and one.code in judged and _looked_for(one, read)
    ]
    reported = set_aside(report, known)
    aside = len(reported.ignored) - len(report.ignored)
    notes = [f"{aside} known {'finding' if aside == 1 else 'findings'} of {name} set aside"] if aside else []
    notes += [f"fixed since {name}: {one}" for one in fixed]
    notes += [f"`rldoctor baseline` takes what is fixed out of {name}"] if fixed else []
    return replace(reported, fixed=tuple(one.fingerprint for one in fixed), notes=(*report.notes, *notes))


def _looked_for(finding: Known, read: set[Path]) -> bool:
    """Whether the file that a finding was in is one of those read now. A report of another checkout names files by
    paths of its own: their ends are compared."""
    place = next((e for e in finding.evidence if e.source and e.line), None)
    if place is None:
        return True
    path = PurePath(place.source or "")
    return any(file.match(str(path)) if not path.is_absolute() else file == Path(path) for file in read)
