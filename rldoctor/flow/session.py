"""From what was asked on the command line to judged cases: which interpreters, bundles, checks and depth."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor import bundle, registry, settings, verdict
from rldoctor.case import Case
from rldoctor.check import Check
from rldoctor.errors import InputError
from rldoctor.flow import collect as collecting
from rldoctor.flow import depth, engine, prove
from rldoctor.flow import probe as probing
from rldoctor.flow.probe import AnyProbe, Progress
from rldoctor.model import Evidence, Level, Missing, Report
from rldoctor.probe import Request
from rldoctor.registry import Registry
from rldoctor.settings import Settings

if TYPE_CHECKING:
    from rldoctor.edits.edit import Edited


# A day; poll(2) counts milliseconds in 32 bits.
LONGEST = 86_400
# How the needs of a check name a package.
PACKAGE = "packages."


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line of ``check`` and ``bundle``, as given."""

    target: Path | None = None
    framework: str | None = None
    arguments: tuple[str, ...] | None = None
    level: str | None = None
    pythons: tuple[str, ...] = ()
    model: Path | None = None
    assume: tuple[str, ...] = ()
    bundles: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    devices: str | None = None
    time_limit: float | None = None
    soak: float | None = None


@dataclass(frozen=True, kw_only=True)
class Session:
    """Options, settings and plugins brought together, with every name in them verified."""

    options: Options
    settings: Settings
    registry: Registry
    checks: list[Check]
    probes: list[AnyProbe]
    level: Level | None

    @property
    def required(self) -> set[str]:
        """The codes that must be judged: those of the settings, and those selected by their full name."""
        selected, require = self.options.select, self.settings.require
        return {c.code for c in self.checks if c.code in selected or c.code.startswith(require)}


def open_session(options: Options) -> Session:
    """Reads the settings and loads the plugins. Raises :class:`InputError` for what cannot be used."""
    try:
        project = settings.load(Path.cwd())
    except FileNotFoundError:
        raise InputError("the current folder does not exist any more") from None
    if options.time_limit is not None and not 1 <= options.time_limit <= LONGEST:
        raise InputError(f"--time-limit {options.time_limit:g}: from 1 to {LONGEST} seconds are expected")
    if options.soak is not None and not 0 < options.soak <= LONGEST / 60:
        raise InputError(f"--soak {options.soak:g}: more than 0 and at most {LONGEST // 60} minutes are expected")
    collecting.devices_named(options.devices)
    elsewhere = bool(options.bundles or options.assume)
    if options.soak is not None and elsewhere:
        raise InputError("--soak keeps traffic up on this machine; --from and --assume judge another one")
    if options.soak is not None and options.time_limit is not None and options.time_limit <= options.soak * 60:
        raise InputError(f"--time-limit {options.time_limit:g} seconds end a soak of {options.soak:g} minutes")
    level = _level(options.level or project.level or "auto")
    # A project's own setting is meant for the machines where something can be run.
    if options.level is not None and level is not None and level > Level.STATIC and elsewhere:
        raise InputError(f"--level {level.label} runs probes on this machine; --from and --assume judge another one")
    if options.soak is not None and level is not None and level < Level.ROLLOUT:
        raise InputError(f"--soak needs --level rollout or compare, not {level.label}")
    found = registry.load(project.disable_plugins)
    if options.assume:
        from rldoctor.facts import assume

        needs = [need for check in found.checks.values() for d in check.detectors for need in d.needs]
        assume.verify(options.assume, {need[len(PACKAGE) :] for need in needs if need.startswith(PACKAGE)})
    try:
        found.select((*project.select, *project.require), tuple(ignore.code for ignore in project.ignore))
    except InputError as error:
        raise InputError(f"{project.file}: {error}") from None
    # What a project requires is judged also where its usual selection leaves it out.
    usual = (*project.select, *project.require) if project.select else ()
    checks = found.select(options.select or usual, options.ignore)
    return Session(
        options=options,
        settings=project,
        registry=found,
        checks=checks,
        probes=probing.needed_probes(checks, found.probes),
        level=level,
    )


@dataclass(frozen=True)
class Examined:
    """One case and what was found in it."""

    case: Case
    report: Report


def of_target(session: Session, target: Path | None) -> Session:
    """The session for one of several targets."""
    return replace(session, options=replace(session.options, target=target))


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
    for case, request in collecting.cases(session, engine.sections(session.checks, session.probes)):
        deep = _depth(session, case, request)
        if notice := probing.announce(case, session.probes, request, deep.level):
            for finding in engine.report(case, session.checks, session.registry).findings:
                progress(f"already found: {finding.code} {finding.severity.value}: {finding.message}")
            progress(notice.text)
        said = notice.timed(progress) if notice else progress
        probed = probing.run_probes(case, session.probes, request, deep, said)
        notes = [*([deep.reason] if deep.reason else []), *_newer_than_known(probed)]
        judged = engine.report(probed, session.checks, session.registry, notes)
        judged = prove.prove(probed, _without_ignored(session, judged), session.registry, request, progress)
        judged = replace(judged, missing=(*_missing(session, probed, judged), *judged.missing))
        examined.append(Examined(_with_kept_logs(session, probed, judged), judged))
    return examined


def _missing(session: Session, case: Case, judged: Report) -> tuple[Missing, ...]:
    """What the verdict on a case speaks about and was not reached, a level that was asked for included."""
    subject = verdict.Subject.ENVIRONMENT if case.plan is None else verdict.Subject.LAUNCH
    found = verdict.missing(subject, case, judged, engine.sections(session.checks, ()), session.required)
    asked = session.level if session.options.level is not None else None
    if session.options.soak is not None:
        asked = asked or Level.ROLLOUT
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


def _without_ignored(session: Session, judged: Report) -> Report:
    return settings.silence(judged, session.settings, datetime.date.today())


def mended(examined: list[Examined]) -> Edited:
    """The launch files with the safe fixes made, in memory."""
    from rldoctor.edits import fixes

    return fixes.applied((one.case.plan, one.report.findings) for one in examined if one.case.plan is not None)


def triage(
    session: Session, logs: list[str], all_runs: bool, progress: Progress, baseline: tuple[str, ...] = ()
) -> Report:
    """Judges logs, with what the options say of the machine and the launch file behind them. ``baseline`` are logs of a
    healthy run to compare with."""
    from rldoctor.edits import fixes
    from rldoctor.facts import assume
    from rldoctor.logs import triage as reader

    options = session.options
    case = assume.apply(bundle.load(options.bundles[0]) if options.bundles else Case(), options.assume)
    known = next(collecting.launches(case, options))
    everything = session.registry.checks.values()
    judged = reader.triage(
        logs, session.checks, known, all_runs, vocabulary=everything, baseline=baseline, progress=progress
    )
    place = judged.incident if judged.incident is not None and judged.incident.source else None
    launch = Evidence(text="the launch", source=str(options.target), line=1) if options.target is not None else None
    log = Evidence(text="the log", source=place.source, line=place.line) if place is not None else None
    judged = _without_ignored(session, replace(judged, place=launch or log or Evidence(text="the log", source=logs[0])))
    missing = verdict.missing(verdict.Subject.LOG, known, judged, {"log"}, session.required)
    judged = replace(judged, missing=(*missing, *judged.missing))
    framework = judged.incident.framework if judged.incident else None
    return fixes.spelled_report(judged, known.plan or (fixes.unread_plan(framework) if framework else None))


def gather(session: Session, progress: Progress) -> Case:
    """All facts of one environment, probes included up to the level asked for: what a bundle holds."""
    from rldoctor import facts

    if len(session.options.pythons) > 1:
        raise InputError("a bundle holds one environment; give one --python")
    cases = list(collecting.cases(session, set(facts.SECTIONS)))
    found = [case.plan for case, _ in cases if case.plan is not None]
    case, request = cases[0]
    if found and session.options.target is not None and not case.sources:
        from rldoctor.launch.plans import sources

        case = replace(case, sources=sources(session.options.target, found))
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
    judged = engine.report(probed, session.registry.checks.values(), session.registry)
    return _with_kept_logs(session, probed, judged)


def _depth(session: Session, case: Case, request: Request) -> depth.Depth:
    if session.options.bundles or session.options.assume:
        return depth.Depth(Level.STATIC)
    if session.level is not None:
        return depth.Depth(session.level)
    if session.options.soak is not None:  # whoever asks for it has chosen a device for it
        return depth.Depth(Level.ROLLOUT)
    return depth.auto_depth(case, request)


def _level(name: str) -> Level | None:
    if name == "auto":
        return None
    try:
        return Level[name.upper()]
    except KeyError:
        known = ", ".join(["auto", *(level.label for level in Level)])
        raise InputError(f"unknown level {name!r}; known are {known}") from None
