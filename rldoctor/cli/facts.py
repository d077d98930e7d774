"""The commands about the facts of machines: to save them, to compare two, and which versions go together."""

from __future__ import annotations

from pathlib import Path

import click

from rldoctor import redact
from rldoctor.cli import options as given
from rldoctor.cli.exits import ExitCode
from rldoctor.errors import InputError
from rldoctor.streams import deliver, progress


@click.command()
@given.target
@given.level("static")
@given.python
@given.model
@given.devices
@given.time_limit
@given.output
def bundle(
    target: Path | None,
    level: str | None,
    pythons: tuple[str, ...],
    model: Path | None,
    devices: str | None,
    time_limit: float | None,
    output: Path | None,
) -> int:
    """Save the facts of this machine, secrets removed, to be judged elsewhere with `check --from`."""
    from rldoctor import bundle as bundles
    from rldoctor.flow import run, session

    opened = session.open_session(
        session.Options(
            target=target,
            level=level,
            pythons=pythons,
            model=model,
            devices=devices,
            time_limit=time_limit,
        )
    )
    deliver(bundles.dump(run.gather(opened, progress)) + "\n", output)
    return ExitCode.OK


@click.command()
@click.argument("first", type=given.PATH)
@click.argument("second", type=given.PATH)
@given.format_of_two
@given.output
def diff(
    first: Path,
    second: Path,
    format_: str,
    output: Path | None,
) -> int:
    """Show what differs between two bundles: packages, GPUs, variables, settings, limits.

    FIRST is of the machine where it works, SECOND of the one where it fails."""
    from rldoctor import bundle as bundles
    from rldoctor.diff import differences
    from rldoctor.report import difference

    render = difference.renderer(format_, to_file=output is not None)
    found = differences(bundles.load(first), bundles.load(second))
    deliver(render(redact.tree(found), str(first), str(second)), output)
    progress(f"{len(found)} {'difference' if len(found) == 1 else 'differences'}")
    return ExitCode.FINDINGS if found else ExitCode.OK


@click.command()
@click.argument("packages", nargs=-1)
@given.python
@given.assume
@given.bundles("Judge a saved bundle.")
@click.option("--refresh", is_flag=True, help="Read what was published since then (uses the network); judges nothing.")
@click.option("--index", metavar="URL", help="With --refresh: a simple index; pip's own by default.")
@given.format_of_two
@given.output
def compat(
    packages: tuple[str, ...],
    pythons: tuple[str, ...],
    assume: tuple[str, ...],
    saved: tuple[Path, ...],
    refresh: bool,
    index: str | None,
    format_: str,
    output: Path | None,
) -> int:
    """Show which versions go together, and the changes without which these do not.

    PACKAGES are what there shall be, such as vllm==0.8.5; else it is what is installed."""
    from rldoctor.compat import answer, report
    from rldoctor.flow import run, session

    render = report.renderer(format_, to_file=output is not None)
    if refresh:
        from rldoctor.tables.declarations import make as table

        if pythons or assume or saved:
            raise InputError("--refresh renews the table of releases and judges nothing: leave out what to judge")
        return ExitCode.OK if table.renew(packages, output, index, progress) else ExitCode.CANNOT_JUDGE
    if index is not None:
        raise InputError("--index is what --refresh reads; without it nothing uses the network")
    if len(pythons) > 1 or len(saved) > 1:
        raise InputError("the versions of one environment are judged at a time; give one --python or --from")
    opened = session.open_session(session.Options(level="static", pythons=pythons, assume=assume, bundles=saved))
    found = answer.judge(run.gather(opened, progress), packages)
    deliver(render(redact.tree(found)), output)
    progress(answer.sentence(found))
    return {"consistent": ExitCode.OK, "changes": ExitCode.FINDINGS}.get(found.outcome, ExitCode.CANNOT_JUDGE)
