"""From log files to a report: reads, makes an incident of the last run, asks every signature, ranks the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor.case import Case, Distribution, Packages, Series
from rldoctor.case.lookup import canonical
from rldoctor.catalogue.check import Check, Kind
from rldoctor.catalogue.precedence import Precedence
from rldoctor.errors import InputError
from rldoctor.logs.asking import ask
from rldoctor.logs.dating import said, spans
from rldoctor.logs.devices import devices
from rldoctor.logs.endings import ended
from rldoctor.logs.events import events_of
from rldoctor.logs.fact_lines import fact_lines
from rldoctor.logs.incident import first_failure, log_run
from rldoctor.logs.launched import launched
from rldoctor.logs.metrics import is_metric_file, merge, read_files
from rldoctor.logs.ranking import ranked
from rldoctor.logs.reading import read
from rldoctor.logs.record import FileRecord
from rldoctor.logs.runs import Slice, slices
from rldoctor.logs.sources import Source, TextSource, sources_of
from rldoctor.logs.table import Table
from rldoctor.model import Report

if TYPE_CHECKING:
    from rldoctor.logs.novelty import Compared

Progress = Callable[[str], None]
# What becomes of the report on one run, given the case that it was judged with.
Finish = Callable[[Report, Case], Report]


def triage(
    paths: Sequence[str],
    checks: Iterable[Check],
    case: Case | None = None,
    all_runs: bool = False,
    vocabulary: Iterable[Check] | None = None,
    baseline: Sequence[str] = (),
    progress: Progress = lambda text: None,
    finish: Finish = lambda report, case: report,
) -> Report:
    """Judges the logs at ``paths`` (files, folders, ``-``) with the signatures of ``checks``.

    ``case`` holds what is known of the environment (``--bundle``, ``--config``); versions that the log reveals go
    before it. ``vocabulary`` are checks that are not asked but whose roles tell wrappers from causes (all, where
    ``checks`` were selected). With ``all_runs`` the report's ``earlier_runs`` holds the others. ``baseline`` are
    logs of a healthy run: lines of the last run that are new against them become evidence. ``finish`` puts the fixes
    of a run's report into the words of its launch, as far as ``case`` or the log tells it. Raises :class:`InputError`
    where nothing can be read."""
    asked = list(checks)
    compared, reported = _compared_with(baseline)
    measured = _metric_files(paths)
    named = [path for path in paths if path == "-" or not is_metric_file(Path(path)) or not Path(path).is_file()]
    sources, notes = sources_of(named, may_be_empty=bool(measured))
    table = _table(tuple(dict.fromkeys([*asked, *(vocabulary or ())])))
    records = _read_all(sources, table, notes, progress) if sources else []
    known = case or Case()
    if measured:
        known = replace(known, metrics={**(known.metrics or {}), **measured})
    if compared is not None:
        compared.sources.update((source.name, source) for source in sources)
    target = ", ".join("standard input" if path == "-" else path for path in paths)
    return _report(records, table, asked, known, target, [*notes, *reported], all_runs, compared, finish)


def triage_text(text: str, checks: Iterable[Check] | None = None, case: Case | None = None) -> Report:
    """Judges a log given as text; without ``checks`` with all built-in ones. For tests and other programs."""
    every = _all_checks()
    asked = list(every if checks is None else checks)
    others = [check for check in dict.fromkeys(asked) if check not in every]
    table = _table((*others, *every))
    return judged(TextSource("log", text.encode()), table, asked, case or Case())


def judged(source: Source, table: Table, checks: list[Check], case: Case, compared: Compared | None = None) -> Report:
    """Judges one stream with a table that is there already."""
    return _report([read(source, table)], table, checks, case, source.name, [], False, compared)


def judged_record(record: FileRecord, table: Table, checks: list[Check], case: Case) -> tuple[Report, Case]:
    """Judges what was read of one log; with the case that it was judged with, its versions and metrics among it."""
    used = [case]

    def finish(report: Report, known: Case) -> Report:
        used.append(known)
        return report

    return _report([record], table, checks, case, record.name, [], False, finish=finish), used[-1]


def _compared_with(paths: Sequence[str]) -> tuple[Compared | None, list[str]]:
    """What the last run is compared with, and notes on it."""
    if not paths:
        return None, []
    from rldoctor.logs.baseline import read_baseline
    from rldoctor.logs.novelty import Compared

    baseline, notes = read_baseline(paths)
    return Compared(baseline), notes


def _metric_files(paths: Sequence[str]) -> dict[str, Series]:
    """What metric files tell (a trainer's state, event files), those in folders included."""
    files = [Path(path) for path in paths if path != "-"]
    return read_files([path for path in files if path.is_dir() or (path.is_file() and is_metric_file(path))])


@lru_cache(maxsize=1)
def _all_checks() -> tuple[Check, ...]:
    from rldoctor.catalogue import registry

    return tuple(registry.load().checks.values())


@lru_cache(maxsize=4)
def _table(checks: tuple[Check, ...]) -> Table:
    """What they look for. It takes as long to make as a log of some lines takes to judge."""
    return Table(checks)


def _read_all(sources: Sequence[Source], table: Table, notes: list[str], progress: Progress) -> list[FileRecord]:
    """Reads every source. In a folder, files that are no text or empty are left out; a file that was named must be
    readable."""
    records: list[FileRecord] = []
    faults: list[str] = []
    for source in sources:
        if source.takes_long():
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
    compared: Compared | None = None,
    finish: Finish = lambda report, case: report,
) -> Report:
    parts = [slices(record) for record in records]
    runs = max((len(part) for part in parts), default=1)
    reports = []
    for back in range(runs if all_runs else 1):
        pieces = [part[-1 - back] for part in parts if back < len(part)]
        earlier = [part[-2 - back] if back + 1 < len(part) else None for part in parts if back < len(part)]
        last = compared if back == 0 else None
        reports.append(finish(*_one_run(pieces, earlier, table, asked, case, target, runs - back, runs, last)))
    return replace(reports[0], notes=(*notes, *reports[0].notes), earlier_runs=tuple(reversed(reports[1:])))


def _one_run(
    pieces: list[Slice],
    earlier: list[Slice | None],
    table: Table,
    asked: list[Check],
    case: Case,
    target: str,
    run: int,
    runs: int,
    compared: Compared | None,
) -> tuple[Report, Case]:
    logged, verdicts = log_run(pieces, table, run, runs)
    if logged.incident.kind == "crashed" and logged.root is None:
        # Only wrappers: what looked like the start of a run may be none, and the cause stand before it.
        wider = [p.joined(e) if e is not None and not p.sure else p for p, e in zip(pieces, earlier, strict=True)]
        again, again_verdicts = log_run(wider, table, run, runs)
        if again.root is not None:
            pieces, logged, verdicts = wider, again, again_verdicts
    known = _with_metrics(_with_versions(case, logged.versions), pieces)
    gpus = devices(pieces) if known.gpus is None else None
    known = replace(known, gpus=known.gpus or gpus, fact_lines=fact_lines(pieces, logged, gpus))
    if known.plan is None:
        known = replace(known, plan=launched(pieces, known, logged.incident.framework))
    if compared is not None:
        logged = replace(logged, new=compared.new(pieces, first_failure(verdicts)))
    precedence = Precedence.of(asked)
    found, results = ask(asked, events_of(pieces, table, logged, verdicts), known, logged, precedence)
    findings = ranked(found, logged, precedence)
    if compared is not None:
        findings = compared.supported(findings, logged.new)
    stalls = precedence.of_kind(Kind.STALL)
    incident = ended(logged.incident, pieces, found, findings, stalls, first_failure(verdicts), logged.root is None)
    incident = replace(incident, dated=spans(logged.dated), facts=tuple(known.fact_lines.values()))
    notes = tuple(said(logged.root))
    return Report(target=target, results=results, incident=incident, ranked=findings, notes=notes), known


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
