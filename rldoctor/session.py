"""From what was asked on the command line to judged cases: which interpreters, bundles, checks and depth."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor import bundle, depth, engine, probing, prove, registry, settings
from rldoctor.case import Case, Unknown
from rldoctor.check import Check
from rldoctor.errors import InputError
from rldoctor.model import Level, Report
from rldoctor.probe import Request
from rldoctor.probing import AnyProbe, Progress
from rldoctor.registry import Registry
from rldoctor.settings import Settings

if TYPE_CHECKING:
    from rldoctor.launch.edits.edit import Edited


# A day; poll(2) counts milliseconds in 32 bits.
LONGEST = 86_400


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line of ``check`` and ``bundle``, as given."""

    target: Path | None = None
    framework: str | None = None
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
    if options.soak is not None and (options.bundles or options.assume):
        raise InputError("--soak keeps traffic up on this machine; --from and --assume judge another one")
    if options.soak is not None and options.time_limit is not None and options.time_limit <= options.soak * 60:
        raise InputError(f"--time-limit {options.time_limit:g} seconds end a soak of {options.soak:g} minutes")
    level = _level(options.level or project.level or "auto")
    if options.soak is not None and level is not None and level < Level.ROLLOUT:
        raise InputError(f"--soak needs --level rollout or compare, not {level.label}")
    found = registry.load(project.disable_plugins)
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


def examine(session: Session, progress: Progress) -> list[Examined]:
    """Collects, probes and judges every case that the options name: one for each environment, launch or bundle."""
    examined = []
    for case, request in _cases(session, engine.sections(session.checks, session.probes)):
        deep = _depth(session, case, request)
        if notice := probing.announce(case, session.probes, request, deep.level):
            for finding in engine.report(case, session.checks, session.registry).findings:
                progress(f"already found: {finding.code} {finding.severity.value}: {finding.message}")
            progress(notice)
        probed = probing.run_probes(case, session.probes, request, deep, progress)
        notes = [deep.reason] if deep.reason else []
        judged = engine.report(probed, session.checks, session.registry, notes)
        judged = prove.prove(probed, _without_ignored(session, judged), session.registry, request, progress)
        examined.append(Examined(probed, judged))
    return examined


def _without_ignored(session: Session, judged: Report) -> Report:
    return settings.silence(judged, session.settings.ignore, datetime.date.today())


def mended(examined: list[Examined]) -> Edited:
    """The launch files with the safe fixes made, in memory."""
    from rldoctor.launch.edits import fixes

    return fixes.applied((one.case.plan, one.report.findings) for one in examined if one.case.plan is not None)


def triage(
    session: Session, logs: list[str], all_runs: bool, progress: Progress, baseline: tuple[str, ...] = ()
) -> Report:
    """Judges logs, with what the options say of the machine and the launch file behind them. ``baseline`` are logs of a
    healthy run to compare with."""
    from rldoctor.facts import assume
    from rldoctor.launch.edits import fixes
    from rldoctor.logs import triage as reader

    options = session.options
    case = assume.apply(bundle.load(options.bundles[0]) if options.bundles else Case(), options.assume)
    known = next(_launches(case, options))
    everything = session.registry.checks.values()
    judged = reader.triage(
        logs, session.checks, known, all_runs, vocabulary=everything, baseline=baseline, progress=progress
    )
    judged = _without_ignored(session, judged)
    framework = judged.incident.framework if judged.incident else None
    return fixes.spelled_report(judged, known.plan or (fixes.unread_plan(framework) if framework else None))


def gather(session: Session, progress: Progress) -> Case:
    """All facts of one environment, probes included up to the level asked for: what a bundle holds."""
    from rldoctor import facts

    if len(session.options.pythons) > 1:
        raise InputError("a bundle holds one environment; give one --python")
    cases = list(_cases(session, set(facts.SECTIONS)))
    if len(cases) > 1:
        lines = ", ".join(str(case.plan.line) for case, _ in cases if case.plan is not None)
        raise InputError(f"{session.options.target}: a bundle holds one launch, this starts several (lines {lines})")
    case, request = cases[0]
    return probing.run_probes(case, session.probes, request, _depth(session, case, request), progress)


def _cases(session: Session, sections: set[str]) -> Iterator[tuple[Case, Request]]:
    from rldoctor import facts
    from rldoctor.facts import assume

    options = session.options
    if options.bundles and options.pythons:
        raise InputError("--python examines this machine, --from judges a saved one; give one of them")
    for file in options.bundles:
        case = assume.apply(bundle.load(file), options.assume)
        if len(options.bundles) > 1:
            case = replace(case, role=case.role or str(file))
        for one in _launches(case, options):
            yield _not_probed(one, session.probes, "judged from a bundle"), Request()
    if options.bundles:
        return
    if _launch_file(options) is not None:
        # How a launch resolves depends on all of them, whatever the selected checks name.
        sections = set(facts.SECTIONS)
    for role, python in _interpreters(options.pythons):
        request = Request(
            target=options.target,
            python=python,
            model=options.model,
            devices=_devices(options.devices),
            time_limit=options.time_limit,
            soak=options.soak,
            level=session.level,
            environ=dict(os.environ),
        )
        case = assume.apply(replace(facts.collect(sections, request), role=role), options.assume)
        for one in _launches(case, options):
            if options.assume:
                one = _not_probed(one, session.probes, "judged for an assumed machine")
            yield one, request


def _launch_file(options: Options) -> Path | None:
    """The target where it is a launch file; a directory is a model. Raises :class:`InputError` for one that is none."""
    if options.target is None or not options.target.is_dir():
        return options.target
    if not (options.target / "config.json").is_file():
        raise InputError(f"{options.target}: a folder without config.json, neither a model nor a launch file")
    return None


def _launches(case: Case, options: Options) -> Iterator[Case]:
    """The case once for every launch of the target, or as it is where there is no launch file."""
    target = _launch_file(options)
    absent = {
        "metrics": "no log was given (rldoctor triage LOG)",
        "observations.hang": "no stalled run was looked at (rldoctor hang)",
        **case.absent,
    }
    if case.nodes is None:
        nodes = Unknown(reason="how many nodes the run has is not told", how="--assume machine.json")
        case = replace(case, unknown={"nodes": nodes, **case.unknown})
    if target is None:
        yield replace(case, absent={"plan": "no launch file was given (rldoctor check LAUNCHFILE)", **absent})
        return
    from rldoctor import facts
    from rldoctor.launch.plans import model_directory, plans

    found = plans(target, case, options.framework)
    if not found:
        raise InputError(f"{target}: starts nothing that rldoctor knows (--framework NAME forces a reading)")
    for plan in found:
        one = replace(case, plan=plan, target=f"{target}:{plan.line}" if len(found) > 1 else str(target), absent=absent)
        directory = options.model or model_directory(plan)
        if directory is not None and one.model is None:
            model = facts.collect({"model"}, Request(model=directory))
            unknown = {name: why for name, why in one.unknown.items() if name != "model"} | model.unknown
            one = replace(one, model=model.model, unknown=unknown, absent=absent | model.absent)
        yield one


def _not_probed(case: Case, probes: list[AnyProbe], why: str) -> Case:
    """Explains the observations that the case lacks: nothing is run for a machine that is not this one."""
    names = (f"observations.{probe.name}" for probe in probes if probe.name not in case.observations)
    return replace(case, unknown={**{name: Unknown(reason=why) for name in names}, **case.unknown})


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


def _interpreters(given: tuple[str, ...]) -> list[tuple[str | None, Path | None]]:
    """Role and path of each ``--python``; this process's own interpreter where none is given."""
    if not given:
        return [(None, None)]
    split: list[tuple[str | None, Path | None]] = []
    for item in given:
        role, equals, path = item.partition("=")
        # A path may hold an equals sign, a role is a plain word.
        named = (role, Path(path)) if equals and role.isidentifier() else (None, Path(item))
        if not (path if named[0] else item):
            raise InputError(f"--python {item!r}: the path of an interpreter is missing")
        if named[0] and named[0] in [role for role, _ in split]:
            raise InputError(f"--python {item}: a second interpreter for {role}")
        split.append(named)
    return split


def _devices(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--devices {text!r}: GPU numbers separated by commas are expected, such as 0,1") from None
