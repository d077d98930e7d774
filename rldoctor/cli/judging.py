"""The commands that judge: an environment and its launch, the log of a run, a run that stands still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rldoctor import redact
from rldoctor.cli import options as given
from rldoctor.cli.exits import OF_STATE, threshold_of
from rldoctor.cli.options import PATH, split
from rldoctor.errors import InputError
from rldoctor.model import Report
from rldoctor.streams import deliver, progress

if TYPE_CHECKING:
    from rldoctor.flow.session import Options, Session


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a report is to come: the options that every command that judges has."""

    fail_on: str | None
    format: str
    output: Path | None
    verbose: bool
    quiet: bool


@dataclass(frozen=True)
class Judging:
    """What every command that judges begins and ends with."""

    session: Session
    shape: Shape
    threshold: str
    render: Callable[[Report], str]

    @classmethod
    def begin(cls, options: Options, shape: Shape) -> Judging:
        """Raises :class:`InputError` for options, settings and plugins that cannot be used, before anything runs."""
        from rldoctor import report
        from rldoctor.flow import session
        from rldoctor.report.detail import Detail

        if shape.quiet and shape.verbose:
            raise InputError("-q shows findings only and -v everything: give one of them")
        detail = Detail.FINDINGS if shape.quiet else Detail.ALL if shape.verbose else Detail.USUAL
        render = report.renderer(shape.format, to_file=shape.output is not None, detail=detail)
        opened = session.open_session(options)
        return cls(opened, shape, threshold_of(shape.fail_on, opened), render)

    def end(self, judged: Report, shown: str | None = None) -> int:
        """Hands over the report, or what is ``shown`` in its place, and says what it comes to."""
        from rldoctor import verdict
        from rldoctor.report.words import summed_up

        judged = verdict.over(judged, self.threshold)
        deliver(self.render(redact.tree(judged)) if shown is None else redact.text(shown), self.shape.output)
        if self.shape.format != "rich" or self.shape.output is not None or shown is not None:
            progress(summed_up(judged))
        assert judged.verdict is not None
        return OF_STATE[judged.verdict.state]


@click.command(cls=given.TakesArguments)
@given.targets
@click.option("--framework", metavar="NAME", help="Read the launch file as this framework's.")
@given.level()
@given.python
@given.model
@given.assume
@given.bundles("Judge a saved bundle; repeatable.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes to the launch file.")
@click.option("--diff", is_flag=True, help="Print the safe fixes as a diff instead of the report.")
@given.devices
@given.time_limit
@given.soak
@given.judging
def check(
    targets: tuple[Path, ...],
    framework: str | None,
    level: str | None,
    pythons: tuple[str, ...],
    model: Path | None,
    assume: tuple[str, ...],
    saved: tuple[Path, ...],
    fix: bool,
    diff: bool,
    devices: str | None,
    time_limit: float | None,
    soak: float | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    format_: str,
    output: Path | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Judge an environment, and the launches that are given: files, or a local model directory. What stands behind --
    is given to the launch script: rldoctor check train.sh -- --lr 1e-6.

    Exit status: 0 judged, and nothing at or above --fail-on; 1 findings; 2 could not judge, with what is missing.

    The fixes of a finding are safe (--fix applies them: the run does the same work), unsafe (they change results or
    speed: your decision), or for display (done by hand, in another file or place)."""
    from rldoctor.flow import engine, run, session

    options = session.Options(
        framework=framework,
        arguments=given.arguments(),
        level=level,
        pythons=pythons,
        model=model,
        assume=assume,
        bundles=saved,
        select=split(select),
        ignore=split(ignore),
        devices=devices,
        time_limit=time_limit,
        soak=soak,
    )
    shape = Shape(fail_on=fail_on, format=format_, output=output, verbose=verbose, quiet=quiet)
    judging = Judging.begin(options, shape)
    if options.arguments is not None and len(targets) != 1:
        raise InputError(f"what stands behind -- goes to one launch script; {len(targets)} are given")
    if (fix or diff) and not targets and not saved:
        raise InputError(f"{'--fix' if fix else '--diff'} mends a launch file; none was given")

    def examined() -> list[run.Examined]:
        every = (run.of_target(judging.session, target) for target in targets or (None,))
        return [one for opened in every for one in run.examine(opened, progress)]

    found = examined()
    shown = None
    notes: list[str] = []
    if fix or diff:
        from rldoctor.edits.edit import save

        edited = run.mended(found)
        for spelling, reason in edited.refused:
            progress(f"not applied: {spelling.text}: {reason}")
        changed = save(edited) if fix else ()
        for file in changed:
            progress(f"changed {file}")
        shown = edited.diff() if diff else None
        if changed:  # the verdict is on what is there now
            notes = [f"judged after --fix changed {', '.join(changed)}"]
            found = examined()
    if format_ == "sarif":
        found = run.with_changes(found)
    judged = engine.join([one.report for one in found])
    return judging.end(replace(judged, notes=(*notes, *judged.notes)), shown)


@click.command()
@click.argument("logs", nargs=-1, required=True)
@click.option("--config", type=PATH, help="The launch file of the run, to spell and apply fixes.")
@click.option("--bundle", type=PATH, help="Facts of the machine that ran it (rldoctor bundle).")
@given.assume
@click.option(
    "--baseline", multiple=True, metavar="LOG", help="Logs of a healthy run: what is new against them is shown."
)
@click.option("--all-runs", is_flag=True, help="Judge every run in the log, not the last.")
@given.judging
def triage(
    logs: tuple[str, ...],
    config: Path | None,
    bundle: Path | None,
    assume: tuple[str, ...],
    baseline: tuple[str, ...],
    all_runs: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    format_: str,
    output: Path | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Find the first cause in the log of a run that crashed, stalled or silently failed.

    LOGS are files, folders of them, .gz, or - for standard input."""
    from rldoctor.flow import run, session

    options = session.Options(
        target=config,
        bundles=(bundle,) if bundle else (),
        assume=assume,
        select=split(select),
        ignore=split(ignore),
    )
    judging = Judging.begin(
        options, Shape(fail_on=fail_on, format=format_, output=output, verbose=verbose, quiet=quiet)
    )
    judged = run.triage(judging.session, list(logs), all_runs, progress, baseline)
    return judging.end(judged)


@click.command()
@click.argument("pid", type=int, required=False)
@click.option("--seconds", type=float, default=5.0, help="How long to watch; nothing is stopped meanwhile.")
@click.option("--folder", type=PATH, help="Keep what is collected in this new folder.")
@given.bundles("Judge a saved folder; one for each node of the run.")
@click.option("--dump-collectives", is_flag=True, help="Ask torch for its flight recorder, where the run listens.")
@given.judging
def hang(
    pid: int | None,
    seconds: float,
    folder: Path | None,
    saved: tuple[Path, ...],
    dump_collectives: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    format_: str,
    output: Path | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Collect what every process of a stalled run does, and say which one the others wait for.

    PID is a process of the run; without one it is the only run here."""
    from rldoctor.flow import session
    from rldoctor.hang.examine import HangRequest, examine

    options = session.Options(select=split(select), ignore=split(ignore))
    judging = Judging.begin(
        options, Shape(fail_on=fail_on, format=format_, output=output, verbose=verbose, quiet=quiet)
    )
    request = HangRequest(pid=pid, seconds=seconds, folder=folder, saved=saved, trigger=dump_collectives)
    judged = examine(judging.session, request, progress)
    return judging.end(judged)
