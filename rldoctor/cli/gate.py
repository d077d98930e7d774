"""The commands that keep a gate switched on: what is known already, the settings, the machine to judge for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldoctor import redact
from rldoctor.cli.exits import ExitCode
from rldoctor.cli.options import Assume, Codes, Framework, IgnoredCodes, Level, Model, Output, Python, Targets, split
from rldoctor.cli.targets import refuse
from rldoctor.cli.timeout import Timeout
from rldoctor.errors import InputError
from rldoctor.io.streams import deliver, progress

if TYPE_CHECKING:
    from rldoctor.case import Case
    from rldoctor.facts.assume import Machine


def baseline(
    targets: Targets = None,
    framework: Framework = None,
    level: Level = None,
    python: Python = None,
    model: Model = None,
    assume: Assume = None,
    select: Codes = None,
    ignore: IgnoredCodes = None,
    output: Annotated[Path, typer.Option(help="The file to write, which may exist.")] = Path("rldoctor-baseline.json"),
    timeout: Timeout = None,
) -> int:
    """Save what is found now, so that `check --baseline FILE` fails for what is new alone."""
    from rldoctor.flow import examination, run, session
    from rldoctor.report import json_document

    refuse(targets or [], "baseline")
    opened = session.open_session(
        session.Options(
            framework=framework,
            level=level,
            pythons=tuple(python or ()),
            model=model,
            assume=tuple(assume or ()),
            select=split(select),
            ignore=split(ignore),
        )
    )
    found = run.examine_all(opened, targets or (), progress)
    judged = examination.join([one.report for one in found])
    deliver(json_document.render(redact.tree(judged)), output)
    count = len(judged.findings)
    how = f"rldoctor check --baseline {output}, or baseline in the settings, sets them aside"
    progress(f"{count} finding{'s' if count != 1 else ''} in {output}: {how}")
    for missing in judged.missing:
        progress(f"could not be judged, so it is new once it is found: {missing}")
    return ExitCode.CANNOT_JUDGE if judged.missing else ExitCode.OK


def init(
    folder: Annotated[Path, typer.Argument(help="The project's folder.")] = Path(),
) -> int:
    """Write a commented rldoctor.toml; one that exists is left alone."""
    from rldoctor.project import settings

    file = folder / settings.NAME
    if not folder.is_dir():
        raise InputError(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
    present = settings.beside(folder)
    if present is not None:
        raise InputError(f"{present}: there are settings already; they are left as they are")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(settings.template())
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    progress(f"wrote {file}: every setting is there as a comment, with what it does")
    return ExitCode.OK


def machine(
    python: Python = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", help="A saved bundle, or a folder with the bundle of every node."),
    ] = None,
    output: Output = None,
    timeout: Timeout = None,
) -> int:
    """Describe this machine, or a cluster, for `--assume machine.json`: Python, packages, variables, GPUs, nodes.

    Of a cluster it is what all nodes share; what differs is left out and named (`rldoctor fleet` shows on which)."""
    from rldoctor.facts import machine as machines

    if from_ is not None and python:
        raise InputError("a bundle has its own environment; leave out --python")
    if from_ is not None and from_.is_dir():
        described, said = _cluster(from_)
    else:
        case = _case(python, from_)
        described, said = machines.of_case(case), list(machines.left_out(case))
    deliver(machines.dump(redact.tree(described)), output)
    for line in said:
        progress(line)
    return ExitCode.OK


def _case(python: Python, bundle: Path | None) -> Case:
    """The facts of this machine, or those of a bundle."""
    from rldoctor.flow import run, session

    options = session.Options(level="static", pythons=tuple(python or ()), bundles=(bundle,) if bundle else ())
    return run.gather(session.open_session(options), progress)


def _cluster(folder: Path) -> tuple[Machine, list[str]]:
    """The cluster whose bundles lie in a folder, and what its description does not say."""
    from rldoctor.facts import machine as machines
    from rldoctor.fleet.folder import newest
    from rldoctor.fleet.model import Unread

    unread: list[Unread] = []
    notes: list[str] = []
    nodes = newest(folder, lambda host, case: machines.of_case(case), unread, notes, progress=progress)
    described, differs = machines.shared(nodes)
    lost = [f"left out: {one.source}: {one.reason}" for one in unread]
    return described, [*notes, *lost, *differs]
