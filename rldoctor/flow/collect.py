"""Collects the cases that the options name: the environments of this machine or saved bundles, with each launch."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from rldoctor import bundle, redact
from rldoctor.case import Case, Gpus, Unknown
from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.flow.session import Options, Session, devices_named, own_step
from rldoctor.io import untrusted
from rldoctor.redact import marks


def cases(session: Session, sections: set[str]) -> Iterator[tuple[Case, Request]]:
    """Every case, and with what its probes are to be run. Raises :class:`InputError` for what cannot be used."""
    options = session.options
    if options.bundles and options.pythons:
        raise InputError("--python examines this machine, --from judges a saved one; give one of them")
    yield from _saved(session) if options.bundles else _here(session, sections)


def _saved(session: Session) -> Iterator[tuple[Case, Request]]:
    from rldoctor.facts import assume

    options = session.options
    for file in options.bundles:
        case = assume.apply(_with_model(bundle.load(file), file, options), options.assume)
        if len(options.bundles) > 1:
            case = replace(case, role=case.role or str(file))
        for read in _read_again(case, options):
            for one in launches(read, options):
                yield _told(_not_probed(one, session, "judged from a bundle"), session), Request()


def _read_again(case: Case, options: Options) -> Iterator[Case]:
    """A saved case once for each launch that its sources hold, as what is assumed now makes them; as it is where
    nothing is assumed, or another launch is judged."""
    if options.target is not None or not case.sources or not (options.assume or case.plan is None):
        yield case
        return
    from rldoctor.launch.plans import plans

    target = Path(next(iter(case.sources)))
    # A shell takes the mark of a secret for a redirection.
    sources = {name: marks.as_word(text) for name, text in case.sources.items()}
    found = plans(target, case, options.framework, sources, _given(case, options))
    if not found:
        yield case
    for plan in found:
        yield replace(case, plan=plan, target=f"{target}:{plan.line}" if len(found) > 1 else str(target))


def _given(case: Case, options: Options) -> tuple[str, ...] | None:
    """What the launch script is given: now, else when it was saved. A secret is a mark there, which is one word."""
    return options.arguments if options.arguments is not None else case.arguments


def _here(session: Session, sections: set[str]) -> Iterator[tuple[Case, Request]]:
    from rldoctor import facts
    from rldoctor.facts import assume
    from rldoctor.probes.ray_cluster import ray_cluster

    options = session.options
    devices = devices_named(options.devices)
    if _launch_file(options) is not None:
        # How a launch resolves depends on all of them, whatever the selected checks name.
        sections = sections | (facts.SECTIONS.keys() - {"node"})
    else:  # what was named must be there, also where no check reads it
        sections = sections | ({"model"} if options.model else set()) | ({"gpus"} if devices else set())
    for role, python in _interpreters(options.pythons):
        request = Request(
            target=options.target,
            python=python,
            model=options.model,
            devices=devices,
            time_limit=options.time_limit,
            soak=options.soak,
            keep=options.keep,
            step=own_step(options.step) if options.step is not None else None,
            level=session.level,
            ray=options.ray,
            environ=dict(os.environ),
        )
        case = replace(facts.collect(sections, request), role=role)
        if devices and not options.assume:
            require_devices(devices, case.gpus)
        for one in launches(assume.apply(case, options.assume), options):
            if options.assume:
                # The cluster that was named is none of what is assumed.
                but = (ray_cluster.name,) if options.ray else ()
                yield _told(_not_probed(one, session, "judged for an assumed machine", but), session), request
            else:
                yield _linked(one, session), request


def _launch_file(options: Options) -> Path | None:
    """The target where it is a launch file; a directory is a model. Raises :class:`InputError` for one that is none."""
    if options.target is None or not options.target.is_dir():
        return options.target
    if not (options.target / "config.json").is_file():
        inside = sorted(path for kind in ("*.sh", "*.sbatch", "*.py") for path in options.target.glob(kind))
        hint = f"; hand over the launch file in it, such as {inside[0]}" if inside else ""
        raise InputError(f"{options.target}: a folder without config.json, neither a model nor a launch file{hint}")
    return None


def launches(case: Case, options: Options) -> Iterator[Case]:
    """The case once for every launch of the target, or as it is where there is no launch file."""
    target = _launch_file(options)
    absent = {
        "metrics": "no log was given (rldoctor triage LOG)",
        "links": "the sources of the packages are not at hand",
        "observations.hang": "no stalled run was looked at (rldoctor hang)",
        **case.absent,
    }
    if case.nodes is None:
        nodes = Unknown(reason="how many nodes the run has is not known", how="--assume machine.json")
        case = replace(case, unknown={"nodes": nodes, **case.unknown})
    if target is None:
        yield replace(case, absent={"plan": "no launch file was given (rldoctor check LAUNCHFILE)", **absent})
        return
    from rldoctor import facts
    from rldoctor.facts import environment
    from rldoctor.launch.plans import missing_model, model_directory, plans, published_model

    # Of another machine, or an assumed one, nobody knows what its shell has.
    # A launch may be a stranger's: of a secret it gets a mark, which it may cut in pieces and print.
    caller = redact.environ(os.environ) if case.environment == environment.select(os.environ) else None
    try:
        found = plans(target, case, options.framework, arguments=options.arguments, caller=caller)
        if not found:
            raise InputError(f"{target}: starts nothing that rldoctor knows (--framework NAME forces a reading)")
    except InputError as error:
        _refuse_log(target, error)
        raise
    # What lies in the hub's cache here says nothing of an example or of a machine that only left a log.
    environ = os.environ if case.environment is not None else None
    for plan in found:
        one = replace(case, plan=plan, target=f"{target}:{plan.line}" if len(found) > 1 else str(target), absent=absent)
        directory = options.model or model_directory(plan, environ)
        if directory is not None and one.model is None:
            model = facts.collect({"model"}, Request(model=directory))
            unknown = {name: why for name, why in one.unknown.items() if name != "model"} | model.unknown
            one = replace(one, model=model.model, unknown=unknown, absent=absent | model.absent)
        elif directory is None and (beside := missing_model(plan, here=caller is not None)) is not None:
            one = replace(one, plan=replace(plan, settings={**plan.settings, "model.beside": beside}))
        elif environ is not None and one.model is None and (known := published_model(plan)) is not None:
            unknown = {name: why for name, why in one.unknown.items() if name != "model"}
            one = replace(one, model=known, unknown=unknown)
        yield one


def _refuse_log(target: Path, why: InputError) -> None:
    """Raises :class:`InputError` where what could not be read as a launch is the log of a run: the reader of logs finds
    a step, an end or a failure in it. A file that says what it is, by its ending or its first line, is no log."""
    from rldoctor.formats.kinds import is_named
    from rldoctor.logs.triage import triage_text

    if is_named(target) or not untrusted.is_file(target):
        return
    text = untrusted.beginning(target).decode(errors="replace")
    if text.startswith("#!"):
        return
    try:
        incident = triage_text(text).incident
    except InputError:  # no text
        return
    if incident is None or incident.kind == "unknown":
        return
    if incident.kind == "unfinished" and incident.stage == "start":
        return
    command = f"rldoctor triage {shlex.quote(str(target))}"
    raise InputError(f"{target}: looks like a log, and is no launch file: {command} (read as a launch: {why})")


def _asks_for_links(session: Session) -> bool:
    return any("links" in detector.needs for check in session.checks for detector in check.detectors)


def _told(case: Case, session: Session) -> Case:
    """The case with what the tables tell that its releases refuse, where nothing was linked; without a refusal as it
    is: what the sources would show besides is not known."""
    if case.links is not None or case.plan is None or not case.plan.given or not _asks_for_links(session):
        return case
    from rldoctor.link.validations import refused_by_tables, refused_in_checkout

    own = refused_in_checkout(case)
    found = refused_by_tables(case) if own is None else [own]
    if not found:
        return case
    why = case.absent.get("links", "the sources of the packages are not at hand")
    absent = {name: reason for name, reason in case.absent.items() if name != "links"}
    return replace(case, absent=absent, links={"frameworks": found, "unread": {one["name"]: why for one in found}})


def _linked(case: Case, session: Session) -> Case:
    """The case with what linking its packages shows, where a check of the session reads it."""
    from rldoctor.case.lookup import Absent

    if not _asks_for_links(session):
        return case
    from rldoctor.link.observe import observe

    found = observe(case)
    absent = {name: why for name, why in case.absent.items() if name != "links"}
    if isinstance(found, Unknown):
        return replace(case, absent=absent, unknown={**case.unknown, "links": found})
    if isinstance(found, Absent):
        return replace(case, absent={**absent, "links": found.reason})
    return replace(case, absent=absent, links=found)


def _with_model(case: Case, file: Path, options: Options) -> Case:
    """A saved case with the model that was named beside it. Raises :class:`InputError` where it has another one: what
    was observed there was observed with that."""
    directory = options.model or (options.target if options.target is not None and options.target.is_dir() else None)
    if directory is None:
        return case
    from rldoctor.facts import model_files

    model = model_files.read(directory)
    if case.model is None:
        unknown = {name: why for name, why in case.unknown.items() if name != "model"}
        return replace(case, model=model, unknown=unknown)
    again = bundle.parse(bundle.dump(Case(model=model)).encode(), str(directory)).model
    if again is None or case.model.config != again.config:
        raise InputError(f"{directory}: not the model that {file} was made with, {case.model.path}")
    return case


def _not_probed(case: Case, session: Session, why: str, but: Collection[str] = ()) -> Case:
    """Explains the observations that the case lacks: nothing is run for a machine that is not this one, ``but`` these
    probes, which ask another."""
    there = {*case.observations, *but}
    names = (f"observations.{probe.name}" for probe in session.probes if probe.name not in there)
    return replace(case, unknown={**{name: Unknown(reason=why) for name in names}, **case.unknown})


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


def require_devices(devices: tuple[int, ...], gpus: Gpus | None) -> None:
    """Raises :class:`InputError` for devices that are certainly not there. A driver that fails is for the checks to
    tell, and other vendors' devices are not listed."""
    given = ",".join(map(str, devices))
    if gpus is None or gpus.error is not None or gpus.vendor not in ("nvidia", "none"):
        return
    there = [gpu.index for gpu in gpus.devices]
    if not there:
        raise InputError(f"--devices {given}: this machine has no GPU")
    missing = [index for index in devices if index not in there]
    if missing:
        absent, known = (", ".join(map(str, numbers)) for numbers in (missing, there))
        raise InputError(f"--devices {given}: there is no GPU {absent} here, only {known}")
