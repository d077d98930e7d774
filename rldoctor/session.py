"""From what was asked on the command line to judged cases: which interpreters, bundles, checks and depth."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rldoctor import bundle, engine, registry, settings
from rldoctor.case import Case, Unknown
from rldoctor.check import Check
from rldoctor.errors import InputError
from rldoctor.model import Level, Report
from rldoctor.probe import Probe, Request
from rldoctor.registry import Registry
from rldoctor.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line of ``check`` and ``bundle``, as given."""

    target: Path | None = None
    level: str | None = None
    pythons: tuple[str, ...] = ()
    model: Path | None = None
    assume: tuple[str, ...] = ()
    bundles: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    devices: str | None = None
    time_limit: float | None = None


@dataclass(frozen=True, kw_only=True)
class Session:
    """Options, settings and plugins brought together, with every name in them verified."""

    options: Options
    settings: Settings
    registry: Registry
    checks: list[Check]
    probes: list[Probe]
    level: Level | None

    @property
    def required(self) -> set[str]:
        """The codes that must be judged: those of the settings, and those selected by their full name."""
        asked = {*self.settings.require, *self.options.select}
        return {check.code for check in self.checks if check.code in asked}


def open_session(options: Options) -> Session:
    """Reads the settings and loads the plugins. Raises :class:`InputError` for what cannot be used."""
    project = settings.load(Path.cwd())
    found = registry.load(project.disable_plugins)
    for selector in (*project.require, *(ignore.code for ignore in project.ignore)):
        found.select((selector,))
    checks = found.select(options.select or project.select, options.ignore)
    return Session(
        options=options,
        settings=project,
        registry=found,
        checks=checks,
        probes=engine.needed_probes(checks, found.probes),
        level=_level(options.level or project.level or "auto"),
    )


def examine(session: Session, progress: engine.Progress) -> Report:
    """Collects, probes and judges every case that the options name."""
    reports = []
    for case, request in _cases(session, engine.sections(session.checks, session.probes)):
        depth = _depth(session, case)
        if notice := engine.announce(session.probes, depth.level):
            progress(notice)
        probed = engine.run_probes(case, session.probes, request, depth, progress)
        notes = [depth.reason] if depth.reason else []
        judged = engine.report(probed, session.checks, session.registry, notes)
        silenced = settings.silence(judged.results, session.settings.ignore, datetime.date.today())
        reports.append(replace(judged, results=tuple(silenced)))
    return engine.join(reports)


def gather(session: Session, progress: engine.Progress) -> Case:
    """All facts of one environment, probes included up to the level asked for: what a bundle holds."""
    from rldoctor import facts

    cases = list(_cases(session, set(facts.SECTIONS)))
    if len(cases) != 1:
        raise InputError("a bundle holds one environment; give one --python")
    case, request = cases[0]
    return engine.run_probes(case, session.probes, request, _depth(session, case), progress)


def _cases(session: Session, sections: set[str]) -> Iterator[tuple[Case, Request]]:
    from rldoctor import facts
    from rldoctor.facts import assume

    options = session.options
    for file in options.bundles:
        case = assume.apply(bundle.load(file), options.assume)
        yield _not_probed(case, session.probes, "judged from a bundle"), Request()
    if options.bundles:
        return
    for role, python in _interpreters(options.pythons):
        request = Request(
            target=options.target,
            python=python,
            model=options.model,
            devices=_devices(options.devices),
            time_limit=options.time_limit,
            environ=dict(os.environ),
        )
        case = replace(facts.collect(sections, request), role=role)
        if options.assume:
            case = _not_probed(assume.apply(case, options.assume), session.probes, "judged for an assumed machine")
        yield case, request


def _not_probed(case: Case, probes: list[Probe], why: str) -> Case:
    """Explains the observations that the case lacks: nothing is run for a machine that is not this one."""
    names = (f"observations.{probe.name}" for probe in probes if probe.name not in case.observations)
    return replace(case, unknown={**{name: Unknown(reason=why) for name in names}, **case.unknown})


def _depth(session: Session, case: Case) -> engine.Depth:
    if session.options.bundles or session.options.assume:
        return engine.Depth(Level.STATIC)
    if session.level is not None:
        return engine.Depth(session.level)
    return engine.auto_depth(case)


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
        split.append((role, Path(path)) if equals and role.isidentifier() else (None, Path(item)))
    return split


def _devices(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--devices {text!r}: GPU numbers separated by commas are expected, such as 0,1") from None
