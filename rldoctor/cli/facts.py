"""The commands about facts: to save those of a machine, to compare two, which versions go together, what a launch comes
to."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldoctor import redact
from rldoctor.cli.commands import script_arguments
from rldoctor.cli.exits import ExitCode
from rldoctor.cli.options import (
    Assume,
    Devices,
    Framework,
    Level,
    Model,
    Output,
    Python,
    Target,
    TimeLimit,
)
from rldoctor.cli.targets import refuse
from rldoctor.cli.timeout import Timeout
from rldoctor.errors import InputError
from rldoctor.io.streams import deliver, progress

if TYPE_CHECKING:
    from rldoctor.fleet.model import Judged, Unread
    from rldoctor.model import Level as Depth

# A node that takes longer to write its bundle does not answer.
_LONGEST = 3600


def bundle(
    context: typer.Context,
    target: Target = None,
    level: Level = "static",
    python: Python = None,
    model: Model = None,
    devices: Devices = None,
    time_limit: TimeLimit = None,
    output: Annotated[
        str | None, typer.Option(help="Write to this file, or into this folder (DIR/) under the node's name.")
    ] = None,
    timeout: Timeout = None,
) -> int:
    """Save the facts of this machine, secrets removed, to be judged elsewhere with `check --from`."""
    from rldoctor import bundle as bundles
    from rldoctor.flow import run, session

    refuse([target] if target is not None else [], "bundle")
    opened = session.open_session(
        session.Options(
            target=target,
            arguments=script_arguments(context, [target] if target is not None else ()),
            level=level,
            pythons=tuple(python or ()),
            model=model,
            devices=devices,
            time_limit=time_limit,
        )
    )
    found = run.gather(opened, progress)
    deliver(bundles.dump(found) + "\n", None if output is None else bundles.place(output, found), foreign=True)
    return ExitCode.OK


def fleet(
    folder: Annotated[Path | None, typer.Argument(help="A folder with the bundle of every node.")] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Collect from every node of this Ray cluster (auto, HOST:PORT), into the folder if given."),
    ] = None,
    python: Annotated[Path | None, typer.Option(help="With --ray: the interpreter that has Ray.")] = None,
    level: Annotated[
        str | None, typer.Option(help="With --ray: run the checks of this level on every node (imports to rollout).")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="With --ray: seconds for each node.")] = None,
    format_: Annotated[str, typer.Option("--format", help="rich or json.")] = "rich",
    output: Output = None,
    timeout: Timeout = None,
) -> int:
    """Show how the nodes of a cluster differ, and what that breaks: one bundle for each node, in a folder.

    Slurm writes them with `srun --ntasks-per-node=1 rldoctor bundle --output DIR/`, a pod of Kubernetes with `rldoctor
    bundle --output DIR/` on a volume that all share.

    Exit status: 0 all alike; 1 some differ; 2 a node that could not be read, or nothing to compare."""
    from rldoctor.fleet import folder as fleets
    from rldoctor.probes import kept
    from rldoctor.report import fleet as report

    render = report.renderer(format_, to_file=output is not None)
    if ray is None and (folder is None or python is not None or time_limit is not None or level is not None):
        raise InputError(
            "give a folder of bundles, or --ray ADDRESS to collect them; --python, --level and --time-limit go with it"
        )
    if time_limit is not None and not 1 <= time_limit <= _LONGEST:
        raise InputError(f"--time-limit {time_limit:g}: from 1 to {_LONGEST} seconds are expected")
    with kept.for_a_while("fleet") as temporary:
        place = folder or temporary
        lost: tuple[Unread, ...] = ()
        judged: tuple[Judged, ...] = ()
        if ray is not None:
            lost, judged = _collected(ray, python, place, time_limit, _level(level))
        found = redact.tree(replace(fleets.read(place, progress, lost), judged=judged))
    deliver(render(found), output)
    if format_ != "rich" or output is not None:
        progress(report.sentence(found))
    if found.classes or any(one.severity == "error" for one in found.judged):
        return ExitCode.FINDINGS
    return ExitCode.CANNOT_JUDGE if found.unread or found.nodes == 1 else ExitCode.OK


def _level(name: str | None) -> Depth | None:
    """A level that runs something on a node. Raises :class:`InputError`."""
    from rldoctor.model import Level as Depth

    known = {level.label: level for level in (Depth.IMPORTS, Depth.DEVICES, Depth.ROLLOUT)}
    if name is not None and name not in known:
        raise InputError(f"--level {name}: {', '.join(known)} are expected")
    return known[name] if name is not None else None


def _collected(
    address: str, python: Path | None, folder: Path, time_limit: float | None, level: Depth | None
) -> tuple[tuple[Unread, ...], tuple[Judged, ...]]:
    from rldoctor.fleet import ray_cluster

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    if any(folder.glob("*.json")):
        raise InputError(f"{folder}: has bundles already; name an empty folder for those of the cluster")
    runs = f" and runs the checks of level {level.label}" if level is not None else ""
    progress(f"every node of Ray at {address} writes its bundle{runs}")
    return ray_cluster.collect(address, python, folder, time_limit, os.environ, level)


def diff(
    first: Annotated[Path, typer.Argument(help="A bundle, of the machine where it works.")],
    second: Annotated[Path, typer.Argument(help="A bundle, of the machine where it fails.")],
    format_: Annotated[str, typer.Option("--format", help="rich or json.")] = "rich",
    output: Output = None,
    timeout: Timeout = None,
) -> int:
    """Show what differs between two bundles: packages, GPUs, variables, settings, limits."""
    from rldoctor import bundle as bundles
    from rldoctor.fleet.diff import differences
    from rldoctor.report import difference

    render = difference.renderer(format_, to_file=output is not None)
    found = differences(bundles.load(first), bundles.load(second))
    deliver(render(redact.tree(found), str(first), str(second)), output)
    progress(f"{len(found)} {'difference' if len(found) == 1 else 'differences'}")
    return ExitCode.FINDINGS if found else ExitCode.OK


def plan(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(help="A launch file.")],
    framework: Framework = None,
    python: Python = None,
    model: Model = None,
    assume: Assume = None,
    from_: Annotated[list[Path] | None, typer.Option("--from", help="The environment of a saved bundle.")] = None,
    format_: Annotated[str, typer.Option("--format", help="rich or json.")] = "rich",
    output: Output = None,
    timeout: Timeout = None,
) -> int:
    """Show what a launch comes to: ranks, replicas, seeds, devices, lengths, memory, ports, each with its source."""
    from rldoctor.exhibits.sheet import sheet
    from rldoctor.flow import collect, session
    from rldoctor.report import sheet as report

    render = report.renderer(format_, to_file=output is not None)
    refuse([target], "plan")
    if len(python or ()) > 1 or len(from_ or ()) > 1:
        raise InputError("a plan is that of one environment; give one --python or --from")
    opened = session.open_session(
        session.Options(
            target=target,
            framework=framework,
            arguments=script_arguments(context, [target]),
            level="static",
            pythons=tuple(python or ()),
            model=model,
            assume=tuple(assume or ()),
            bundles=tuple(from_ or ()),
        )
    )
    sections = {"packages", "environment", "gpus", "host", "model", "plan"}
    sheets = [sheet(case) for case, _ in collect.cases(opened, sections) if case.plan is not None]
    if not sheets:
        raise InputError(f"{target}: no launch file")
    deliver(render(redact.tree(tuple(sheets))), output)
    return ExitCode.OK


def compat(
    packages: Annotated[
        list[str] | None,
        typer.Argument(help="What there shall be, such as vllm==0.8.5; else what is installed."),
    ] = None,
    python: Python = None,
    assume: Assume = None,
    from_: Annotated[list[Path] | None, typer.Option("--from", help="Judge a saved bundle.")] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read what was published since then (uses the network); judges nothing.")
    ] = False,
    index: Annotated[str | None, typer.Option(help="With --refresh: a simple index; pip's own by default.")] = None,
    format_: Annotated[str, typer.Option("--format", help="rich or json.")] = "rich",
    output: Output = None,
    timeout: Timeout = None,
) -> int:
    """Show which versions go together, and the changes without which these do not."""
    from rldoctor.compat import answer, report
    from rldoctor.flow import run, session

    render = report.renderer(format_, to_file=output is not None)
    if refresh:
        from rldoctor.probes import kept
        from rldoctor.refresh import declarations as table

        if python or assume or from_:
            raise InputError("--refresh renews the table of releases and judges nothing: leave out what to judge")
        with kept.for_a_while("sources") as cache:
            complete = table.renew(packages or (), output, index, cache, progress)
        return ExitCode.OK if complete else ExitCode.CANNOT_JUDGE
    if index is not None:
        raise InputError("--index is what --refresh reads; without it nothing uses the network")
    if len(python or ()) > 1 or len(from_ or ()) > 1:
        raise InputError("the versions of one environment are judged at a time; give one --python or --from")
    opened = session.open_session(
        session.Options(
            level="static", pythons=tuple(python or ()), assume=tuple(assume or ()), bundles=tuple(from_ or ())
        )
    )
    found = answer.judge(run.gather(opened, progress), packages or ())
    deliver(render(redact.tree(found)), output)
    if format_ != "rich" or output is not None:
        progress(answer.sentence(found))
    return {"consistent": ExitCode.OK, "changes": ExitCode.FINDINGS}.get(found.outcome, ExitCode.CANNOT_JUDGE)
