"""From log files to a report: reads, makes an incident of the last run, asks every signature, ranks the answers."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from rldoctor.case import Case, Distribution, Packages, Series
from rldoctor.check import Check, NotApplicable, NotChecked, Role
from rldoctor.errors import InputError
from rldoctor.judge import join_results, judge_one
from rldoctor.logs.events import events_of
from rldoctor.logs.incident import log_run
from rldoctor.logs.metrics import is_metric_file, merge, read_files
from rldoctor.logs.model import LogEvent, LogRun
from rldoctor.logs.order import OUTSIDE, STALLS
from rldoctor.logs.rank import Found, explains, ranked
from rldoctor.logs.reading import read
from rldoctor.logs.record import FileRecord
from rldoctor.logs.runs import Slice, slices
from rldoctor.logs.sources import Source, sources_of
from rldoctor.logs.table import Table
from rldoctor.lookup import canonical
from rldoctor.model import CheckResult, Finding, Grade, Outcome, Report, Severity

Progress = Callable[[str], None]


def triage(
    paths: Sequence[str],
    checks: Iterable[Check],
    case: Case | None = None,
    all_runs: bool = False,
    vocabulary: Iterable[Check] | None = None,
    progress: Progress = lambda text: None,
) -> Report:
    """Judges the logs at ``paths`` (files, folders, ``-``) with the signatures of ``checks``.

    ``case`` holds what is known of the environment (``--bundle``, ``--config``); versions that the log reveals go
    before it. ``vocabulary`` are checks that are not asked but whose roles tell wrappers from causes (all, where
    ``checks`` were selected). With ``all_runs`` the report's ``earlier_runs`` holds the others. Raises
    :class:`InputError` where nothing can be read."""
    asked = list(checks)
    measured = _metric_files(paths)
    named = [path for path in paths if path == "-" or not is_metric_file(Path(path)) or not Path(path).is_file()]
    sources, notes = sources_of(named, may_be_empty=bool(measured))
    table = Table(list(dict.fromkeys([*asked, *(vocabulary or ())])))
    records = _read_all(sources, table, notes, progress) if sources else []
    known = case or Case()
    if measured:
        known = replace(known, metrics={**(known.metrics or {}), **measured})
    return _report(records, table, asked, known, ", ".join(paths), notes, all_runs)


def triage_text(text: str, checks: Iterable[Check] | None = None, case: Case | None = None) -> Report:
    """Judges a log given as text; without ``checks`` with all built-in ones. For tests and other programs."""
    every = _all_checks()
    asked = list(every if checks is None else checks)
    table = Table(list(dict.fromkeys([*asked, *every])))
    source = _TextSource("log", text.encode())
    return _report([read(source, table)], table, asked, case or Case(), "log", [], all_runs=False)


def _metric_files(paths: Sequence[str]) -> dict[str, Series]:
    """What metric files tell (a trainer's state, event files), those in folders included."""
    files = [Path(path) for path in paths if path != "-"]
    return read_files([path for path in files if path.is_dir() or (path.is_file() and is_metric_file(path))])


@lru_cache(maxsize=1)
def _all_checks() -> tuple[Check, ...]:
    from rldoctor import registry

    return tuple(registry.load().checks.values())


class _TextSource(Source):
    """A log that is in memory already."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(name)
        self._data = data

    def _open(self) -> io.BytesIO:
        return io.BytesIO(self._data)


def _read_all(sources: Sequence[Source], table: Table, notes: list[str], progress: Progress) -> list[FileRecord]:
    """Reads every source. In a folder, files that are no text or empty are left out; a file that was named must be
    readable."""
    records: list[FileRecord] = []
    faults: list[str] = []
    for source in sources:
        progress(f"reading {source.name}")
        try:
            records.append(read(source, table))
        except InputError as error:
            faults.append(str(error))
    if not records:
        raise InputError(faults[0] if len(faults) == 1 else f"none of {len(faults)} files is a log: {faults[0]}")
    notes += [fault for fault in faults if not fault.endswith("is empty")]
    notes += [f"{record.name}: {record.partial}" for record in records if record.partial]
    return records


def _report(
    records: list[FileRecord],
    table: Table,
    asked: list[Check],
    case: Case,
    target: str,
    notes: list[str],
    all_runs: bool,
) -> Report:
    parts = [slices(record) for record in records]
    runs = max((len(part) for part in parts), default=1)
    reports = []
    for back in range(runs if all_runs else 1):
        pieces = [part[-1 - back] for part in parts if back < len(part)]
        earlier = [part[-2 - back] if back + 1 < len(part) else None for part in parts if back < len(part)]
        reports.append(_one_run(pieces, earlier, table, asked, case, target, runs - back, runs))
    last = reports[0]
    return replace(last, notes=(*notes, *last.notes), earlier_runs=tuple(reversed(reports[1:])))


def _one_run(
    pieces: list[Slice],
    earlier: list[Slice | None],
    table: Table,
    asked: list[Check],
    case: Case,
    target: str,
    run: int,
    runs: int,
) -> Report:
    logged, verdicts = log_run(pieces, table, run, runs)
    if logged.incident.kind == "crashed" and logged.root is None:
        # Only wrappers: what looked like the start of a run may be none, and the cause stand before it.
        wider = [p.joined(e) if e is not None and not p.sure else p for p, e in zip(pieces, earlier, strict=True)]
        again, again_verdicts = log_run(wider, table, run, runs)
        if again.root is not None:
            pieces, logged, verdicts = wider, again, again_verdicts
    known = _with_metrics(_with_versions(case, logged.versions), pieces)
    events = events_of(pieces, table, logged, verdicts)
    found, results = _ask(asked, events, known, logged)
    findings = ranked(found, logged)
    incident = logged.incident
    if incident.kind == "clean" and any(f.code in STALLS and f.severity is not Severity.NOTE for f in findings):
        incident = replace(incident, kind="stalled")
    return Report(target=target, results=results, incident=incident, ranked=findings)


def _with_versions(case: Case, versions: dict[str, str]) -> Case:
    """The case with the versions that the log reveals before those it had."""
    shown = [
        Distribution(name=canonical(name), version=version)
        for name, version in versions.items()
        if name not in ("python", "nccl")
    ]
    held = case.packages
    names = {d.name for d in shown}
    rest = tuple(d for d in held.distributions if d.name not in names) if held is not None else ()
    python = versions.get("python") or (held.python if held is not None else "")
    if not shown and not python:
        return case
    return replace(case, packages=Packages(python=python, distributions=(*shown, *rest), complete=False))


def _with_metrics(case: Case, pieces: Sequence[Slice]) -> Case:
    """The case with the metrics that this run's part of the logs holds."""
    parts = [case.metrics or {}]
    for piece in pieces:
        began = [start for start, _ in piece.record.metrics]
        first = max((start for start in began if start <= piece.first), default=1)
        parts += [c.series() for start, c in piece.record.metrics if first <= start <= piece.last]
    series = merge(parts)
    if series:
        return replace(case, metrics=series)
    return replace(case, absent={"metrics": "the log holds no training metrics", **case.absent})


def _measured(checks: Sequence[Check], case: Case) -> list[CheckResult]:
    """What the detectors say that judge metrics and nothing else."""
    results = []
    for check in checks:
        judging = Check(check.code, check.name, None)
        judging.detectors = [
            d for d in check.detectors if d.needs and all(n.split(".")[0] == "metrics" for n in d.needs)
        ]
        if judging.detectors:
            results.append(judge_one(judging, case))
    return results


def _ask(
    asked: list[Check], events: list[tuple[Check, int, LogEvent]], case: Case, run: LogRun
) -> tuple[list[Found], tuple[CheckResult, ...]]:
    """Every signature's answer on every event it is to see, then the conclusions where no cause was found."""
    found: list[Found] = []
    crashes: dict[str, tuple[str, str]] = {}

    def collect(check: Check, role: Role, event: LogEvent | None, findings: Callable[[], Iterable[Finding]]) -> None:
        try:
            found.extend(Found(_completed(finding, event), role, event) for finding in findings())
        except (NotApplicable, NotChecked):
            return
        except Exception as error:  # a signature may fail in any way; the others go on
            crashes.setdefault(check.code, (f"{type(error).__name__}: {error}", traceback.format_exc()))

    chosen = {check.code for check in asked}
    for check, index, event in events:
        if check.code in chosen:
            signature = check.signatures[index]
            collect(check, signature.role, event, partial(signature.judge, case, event))
    measured = {result.code: result for result in _measured(asked, case)}
    found += [Found(f, Role.CAUSE, None, measured=True) for result in measured.values() for f in result.findings]
    if not any(explains(item) for item in found):
        for check in asked:
            for judge in check.conclusions:
                collect(check, Role.CAUSE, None, partial(judge, case, run))
    if any(item.role is Role.CASCADE for item in found):
        # A recorded death or timeout is more than "the cause is elsewhere".
        found = [item for item in found if item.code != OUTSIDE]
    return found, tuple(
        join_results([r for r in (_result(c, found, crashes.get(c.code), run), measured.get(c.code)) if r])
        for c in asked
    )


def _completed(finding: Finding, event: LogEvent | None) -> Finding:
    """What a signature need not say: that its finding was observed, and in which line."""
    evidence = finding.evidence or ((event.evidence(),) if event is not None else ())
    grade = Grade.OBSERVED if finding.grade is Grade.DECLARED else finding.grade
    return replace(finding, evidence=evidence, grade=grade)


def _result(check: Check, found: Sequence[Found], crash: tuple[str, str] | None, run: LogRun) -> CheckResult:
    findings = tuple(item.finding for item in found if item.code == check.code and item.role is not Role.CONFIRMATION)
    if findings:
        return CheckResult(code=check.code, name=check.name, outcome=Outcome.FINDINGS, findings=findings)
    if crash is not None:
        return CheckResult(
            code=check.code, name=check.name, outcome=Outcome.CRASHED, reason=crash[0], traceback=crash[1]
        )
    if not check.signatures and not check.conclusions:
        return CheckResult(
            code=check.code, name=check.name, outcome=Outcome.NOT_APPLICABLE, reason="no log shows this pattern"
        )
    reach = f"not seen in {run.lines} lines of {len(run.sources)} file{'s' if len(run.sources) != 1 else ''}"
    return CheckResult(code=check.code, name=check.name, outcome=Outcome.PASS, reason=reach)
