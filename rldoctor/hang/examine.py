"""From a stalled run, or the folders that one left, to a report."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rldoctor import verdict
from rldoctor.case import Case
from rldoctor.catalogue.check import Check, Kind
from rldoctor.catalogue.precedence import Precedence
from rldoctor.edits.fixes import in_its_words
from rldoctor.errors import InputError
from rldoctor.flow.session import Session
from rldoctor.hang import folder as folders
from rldoctor.hang import pace
from rldoctor.hang.collect import LONGEST, SHORTEST, collect
from rldoctor.hang.incident import incident_of
from rldoctor.hang.model import NAME, GpuUse, Hang, hang_of
from rldoctor.hang.names import ranks_named
from rldoctor.hang.process_state import ProcessState, process_states
from rldoctor.hang.view import StalledRun
from rldoctor.judge import join_results, judge
from rldoctor.model import CheckResult, Missing, Outcome, Report, Severity
from rldoctor.project import settings
from rldoctor.records import dataclass

Progress = Callable[[str], None]

MOST_PLACES = 24
_NO_PACE = Missing(
    what="whether the run stands: nothing tells how long its steps take, and it was watched for less",
    how="the same later, with its output in a file (... | tee run.log), which tells the pace; or rldoctor hang "
    f"--seconds {pace.LONGEST + 1:.0f}",
)
_NO_WORK = Missing(
    what="whether the run stands: none of the processes that were looked at does its work",
    how="rldoctor hang PID, of the program that started it",
)


@dataclass(frozen=True, kw_only=True)
class HangRequest:
    """What was asked for on the command line."""

    pid: int | None = None
    seconds: float
    folder: Path | None = None
    saved: tuple[Path, ...] = ()
    trigger: bool = False


def examine(session: Session, request: HangRequest, progress: Progress) -> Report:
    """Collects and keeps the record, or takes saved ones, and judges it together with the logs beside it.

    Raises :class:`InputError` for what cannot be watched or read."""
    if not SHORTEST <= request.seconds <= LONGEST:
        raise InputError(f"--seconds {request.seconds:g}: from {SHORTEST:g} to {LONGEST:g} are expected")
    if request.saved and (request.pid is not None or request.folder is not None or request.trigger):
        raise InputError("--from judges saved folders; no process, --folder or --dump-collectives goes with it")
    if request.folder is not None and request.folder.exists():
        raise InputError(f"{request.folder}: is there already")
    if request.saved:
        return _judged(session, folders.load(request.saved), request.saved, [])
    case = collect(request.pid, request.seconds, request.trigger, progress)
    kept = folders.save(case, request.folder)
    note = f"everything that was collected is in {kept}, secrets removed (rldoctor hang --from {kept})"
    return _judged(session, case, (kept,), [note])


def _judged(session: Session, case: Case, kept: tuple[Path, ...], notes: list[str]) -> Report:
    hang = hang_of(case)
    results = judge(_watching(session.checks), case, session.registry.checks.values())
    logged = _logged(session, kept)
    # What a log says of these is known better from the run itself, or is no cause.
    better = Precedence.of(session.checks).of_kind(Kind.STALL, Kind.ELSEWHERE, Kind.FALLBACK)
    if logged is not None:
        results = tuple(_joined(results, logged.results, better))
    report = Report(target=_target(case), results=results, notes=(*session.registry.left_out, *places(hang), *notes))
    # What a log says failed comes before what then waited for it.
    causes = [f for f in logged.findings if f.code not in better] if logged is not None else []
    ranked = (*causes, *(f for f in report.findings if f not in causes))
    # Without stacks "nothing found" would say more than is known.
    open_ = {result.code for result in results if result.outcome is Outcome.NOT_CHECKED}
    missing = (*verdict.missing(verdict.Subject.STALL, case, report, (), open_), *session.registry.lacking)
    run = StalledRun(hang)
    if not run.process_states and not report.findings:
        missing = (*missing, _NO_WORK)
    if run.undecided and not any(finding.severity is not Severity.NOTE for finding in ranked):
        missing = (*missing, _NO_PACE)
    report = replace(report, ranked=ranked, incident=incident_of(hang, ranked), missing=missing)
    report = in_its_words(report)
    return settings.silence(report, session.settings, datetime.date.today())


def _watching(checks: Iterable[Check]) -> list[Check]:
    """The checks that judge a stalled run, with the detectors that do."""
    found = []
    for check in checks:
        judging = Check(check.code, check.name, None)
        judging.detectors = [d for d in check.detectors if f"observations.{NAME}" in d.needs]
        if judging.detectors:
            found.append(judging)
    return found


def _logged(session: Session, kept: tuple[Path, ...]) -> Report | None:
    """The failure that the run's own output shows; None where it shows none, or goes to a terminal or a pipe."""
    from rldoctor.logs.triage import triage

    paths = [str(path / folders.LOGS) for path in kept if (path / folders.LOGS).is_dir()]
    paths = [path for path in paths if any(Path(path).iterdir())]
    if not paths:
        return None
    try:
        logged = triage(paths, session.checks, vocabulary=session.registry.checks.values())
    except InputError:  # empty files, or nothing that is text
        return None
    return logged if logged.incident is not None and logged.incident.kind == "crashed" else None


def _joined(
    watched: tuple[CheckResult, ...], logged: tuple[CheckResult, ...], better: frozenset[str]
) -> Iterable[CheckResult]:
    """One result for each code: what was watched decides, what the log shows is added where it found something."""
    by_code = {result.code: [result] for result in watched}
    for result in logged:
        if result.findings and result.code not in better:
            by_code.setdefault(result.code, []).append(result)
    return [join_results(results) for _, results in sorted(by_code.items())]


def places(hang: Hang) -> list[str]:
    """Who is where, one line for each place: what a person looks at first."""
    found: dict[str, list[ProcessState]] = {}
    for one in process_states(hang):
        stage = f", in {one.stage}" if one.stage else ""
        found.setdefault(f"{one.where}{stage}{', moving' if one.moving else ''}", []).append(one)
    lines = [f"{ranks_named(ones)}: {where}" for where, ones in found.items()]
    shown = lines[:MOST_PLACES] + ([f"and {len(lines) - MOST_PLACES} more places"] if len(lines) > MOST_PLACES else [])
    return shown + [_device(gpu) for gpu in hang.gpus if gpu.busy is not None]


def _device(gpu: GpuUse) -> str:
    power = f" at {gpu.power:.0f} of {gpu.limit:.0f} W" if gpu.power is not None and gpu.limit is not None else ""
    on_it = f", with {', '.join(f'pid {pid}' for pid in gpu.pids[:8])}" if gpu.pids else ""
    return f"GPU {gpu.index} ({gpu.name}) is {gpu.busy}% busy{power}{on_it}"


def _target(case: Case) -> str:
    hang = hang_of(case)
    judged = sum(seen.samples > 0 for seen in hang.processes)
    where = f" on {', '.join(hang.hosts)}" if len(hang.hosts) > 1 else ""
    return f"{case.target}{where}: {len(hang.processes)} processes, stacks of {judged}, watched for {hang.seconds:g} s"
