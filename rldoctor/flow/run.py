"""From a session to judged cases: collects, probes, judges, proves; logs are read and judged."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor import bundle, verdict
from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.flow import budget, depth, examination, prove
from rldoctor.flow import collect as collecting
from rldoctor.flow import probe as probing
from rldoctor.flow.probe import Progress
from rldoctor.flow.session import Session, without_effect
from rldoctor.model import Evidence, Level, Missing, Report
from rldoctor.project import settings
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.edits.edit import Edited


@dataclass(frozen=True)
class Examined:
    """One case and what was found in it."""

    case: Case
    report: Report


def of_target(session: Session, target: Path | None) -> Session:
    """The session for one of several targets."""
    return replace(session, options=replace(session.options, target=target))


def examine_all(session: Session, targets: Iterable[Path], progress: Progress) -> list[Examined]:
    """What is found in the cases of every target; of the environment alone where there is none."""
    every = (of_target(session, target) for target in tuple(targets) or (None,))
    return [one for opened in every for one in examine(opened, progress)]


def files(examined: Iterable[Examined]) -> set[str]:
    """The files that the launches were read from."""
    plans = [one.case.plan for one in examined if one.case.plan is not None]
    return {file for plan in plans for file in (plan.file, *plan.files)}


def with_changes(examined: list[Examined]) -> list[Examined]:
    """The same with what each safe fix would make of the launch's files, as changes of lines."""
    from rldoctor.edits import fixes

    return [
        replace(one, report=fixes.with_changes(one.report, one.case.plan)) if one.case.plan is not None else one
        for one in examined
    ]


def examine(session: Session, progress: Progress) -> list[Examined]:
    """Collects, probes and judges every case that the options name: one for each environment, launch or bundle."""
    examined = []
    for collected, request in collecting.cases(session, examination.sections(session.checks, session.probes)):
        case = replace(collected, thresholds=session.thresholds)
        deep = _depth(session, case, request)
        if session.options.budget is not None:
            choice = budget.choose(case, session.probes, session.checks, request, deep.level, session.options.budget)
            progress(choice.text)
            case, request = choice.case, replace(request, until=time.monotonic() + 60 * session.options.budget)
        if notice := probing.announce(case, session.probes, request, deep.level):
            for finding in examination.report(case, session.checks, session.registry).findings:
                progress(f"already found: {finding.code} {finding.severity.value}: {finding.message}")
            progress(notice.text)
        with notice.timed(progress) if notice else nullcontext(progress) as said:
            probed = probing.run_probes(case, session.probes, request, deep, said)
        notes = [*([deep.reason] if deep.reason else []), *_newer_than_known(probed)]
        judged = examination.report(probed, session.checks, session.registry, notes)
        judged = prove.prove(probed, settled(session, judged), session.registry, request, progress)
        judged = replace(judged, missing=(*_missing(session, probed, judged), *judged.missing))
        examined.append(Examined(_with_kept_logs(session, probed, judged), judged))
    return examined


def _missing(session: Session, case: Case, judged: Report) -> tuple[Missing, ...]:
    """What the verdict on a case speaks about and was not reached, a level that was asked for included."""
    subject = verdict.Subject.ENVIRONMENT if case.plan is None else verdict.Subject.LAUNCH
    found = verdict.missing(subject, case, judged, examination.sections(session.checks, ()), session.required)
    asked = session.level if session.options.level is not None else None
    if session.options.soak is not None:
        asked = asked or Level.ROLLOUT
    if session.options.ray is not None:
        found = (*found, *verdict.not_asked(case, session.options.ray))
    return (*found, *verdict.not_run(case, session.probes, asked)) if asked is not None else found


def _newer_than_known(case: Case) -> Iterator[str]:
    """Which engine and frameworks are newer than the tables, so that a reader knows how far their knowledge goes."""
    from rldoctor.frameworks import trainers
    from rldoctor.tables import declarations

    judged = {"vllm", "transformers", *(package.name for record in trainers() for package in record.packages)}
    for distribution in case.packages.distributions if case.packages is not None else ():
        if distribution.name in judged:
            said = declarations.behind(distribution.name, distribution.version)
            if said is not None:
                yield said


def _with_kept_logs(session: Session, probed: Case, judged: Report) -> Case:
    """The case with those logs of its probes that stay when this process ends."""
    if not probed.observations or session.options.bundles:
        return probed
    from rldoctor.probes.kept import keep_logs

    return replace(probed, observations=keep_logs(probed.observations, judged))


def settled(session: Session, judged: Report) -> Report:
    """The report as the project's settings weigh it, what they ignore apart. Plugins that could not be used are noted;
    where that is a part of rldoctor, the verdict lacks it."""
    registry = session.registry
    noted = replace(
        judged,
        notes=(*registry.left_out, *judged.notes, *without_effect(session.settings)),
        missing=(*judged.missing, *registry.lacking),
    )
    weighed = settings.weighed(noted, session.settings)
    return settings.silence(weighed, session.settings, datetime.date.today())


def illustrated(case: Case, report: Report) -> Report:
    """The report with what can be drawn of its case."""
    from rldoctor import exhibits

    return replace(report, exhibits=(exhibits.of(case, report),))


def mended(examined: list[Examined]) -> Edited:
    """The launch files with the safe fixes made, in memory."""
    from rldoctor.edits import fixes

    return fixes.applied((one.case.plan, one.report.findings) for one in examined if one.case.plan is not None)


def triage(
    session: Session,
    logs: list[str],
    all_runs: bool,
    progress: Progress,
    baseline: tuple[str, ...] = (),
    drawn: bool = False,
) -> Report:
    """Judges logs, with what the options say of the machine and the launch file behind them. ``baseline`` are logs of a
    healthy run to compare with; ``drawn`` says that exhibits are wanted."""
    from rldoctor.edits import fixes, installing
    from rldoctor.facts import assume
    from rldoctor.logs import triage as reader

    options = session.options
    case = assume.apply(bundle.load(options.bundles[0]) if options.bundles else Case(), options.assume)
    known = replace(next(collecting.launches(case, options)), thresholds=session.thresholds)
    everything = session.registry.checks.values()

    def finish(report: Report, case: Case) -> Report:
        report = illustrated(case, report) if drawn else report
        report = fixes.in_its_words(report, case.plan, placed=known.plan is not None)
        python = case.packages.executable if case.packages is not None else None
        ranked = report.ranked and tuple(installing.finding_by(python, one) for one in report.ranked)
        return replace(report, results=tuple(installing.by(python, one) for one in report.results), ranked=ranked)

    judged = reader.triage(
        logs,
        session.checks,
        known,
        all_runs,
        vocabulary=everything,
        baseline=baseline,
        progress=progress,
        finish=finish,
    )
    return settled_log(session, judged, known, logs[0])


def settled_log(session: Session, judged: Report, known: Case, log: str) -> Report:
    """The report on a log with its place, as the project's settings weigh it, and with what was not reached. ``known``
    is the case without the log."""
    at, target = judged.incident, session.options.target
    place = Evidence(text="the log", source=log)
    if at is not None and at.source:
        place = replace(place, source=at.source, line=at.line)
    if target is not None:
        place = Evidence(text="the launch", source=str(target), line=1)
    judged = settled(session, replace(judged, place=place))
    missing = verdict.missing(verdict.Subject.LOG, known, judged, {"log"}, session.required)
    return replace(judged, missing=(*missing, *judged.missing))


def gather(session: Session, progress: Progress) -> Case:
    """All facts of one environment, probes included up to the level asked for: what a bundle holds."""
    from rldoctor import facts

    if len(session.options.pythons) > 1:
        raise InputError("a bundle holds one environment; give one --python")
    cases = list(collecting.cases(session, set(facts.SECTIONS)))
    found = [case.plan for case, _ in cases if case.plan is not None]
    case, request = cases[0]
    if case.node is not None and case.model is not None and case.model.files:
        from rldoctor.facts import fingerprints

        case = replace(case, node=replace(case.node, hashes=fingerprints.of(Path(case.model.path))))
    if found and session.options.target is not None and not case.sources:
        from rldoctor.launch.plans import sources

        texts = sources(session.options.target, found)
        case = replace(case, sources=texts, arguments=session.options.arguments)
    if len(found) > 1:  # how many they are depends on the releases; each judgement reads them from the sources
        if session.level is not Level.STATIC:
            lines = ", ".join(str(plan.line) for plan in found)
            what = f"{session.options.target} starts several launches (lines {lines})"
            raise InputError(f"{what}: probes run for one; --level static saves them all")
        return replace(case, plan=None, target=str(session.options.target))
    probed = probing.run_probes(case, session.probes, request, _depth(session, case, request), progress)
    if not probed.observations:
        return probed
    # What a report made here refers to, one made from the bundle will, too.
    judged = examination.report(probed, session.registry.checks.values(), session.registry)
    return _with_kept_logs(session, probed, judged)


def _depth(session: Session, case: Case, request: Request) -> depth.Depth:
    if session.options.bundles or session.options.assume:
        asks = session.options.ray is not None
        return depth.Depth(Level.IMPORTS if asks else Level.STATIC)
    if session.level is not None:
        return depth.Depth(session.level)
    if session.options.soak is not None:  # whoever asks for it has chosen a device for it
        return depth.Depth(Level.ROLLOUT)
    found = depth.auto_depth(case, request)
    # Whoever names a function has asked for it to be run; its devices are pretended.
    return replace(found, level=Level.DEVICES) if session.options.step and found.level < Level.DEVICES else found
