"""The commands that judge: an environment and its launch, the log of a run, a run that stands still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldoctor import redact
from rldoctor.cli.exits import OF_STATE, threshold_of
from rldoctor.cli.options import (
    Assume,
    Codes,
    Devices,
    FailOn,
    Format,
    Level,
    Model,
    Output,
    Python,
    Soak,
    Target,
    TimeLimit,
    split,
)
from rldoctor.errors import InputError
from rldoctor.model import Report
from rldoctor.streams import deliver, progress

if TYPE_CHECKING:
    from rldoctor.flow.session import Options, Session


@dataclass(frozen=True)
class Judging:
    """What every command that judges begins and ends with."""

    session: Session
    threshold: str
    render: Callable[[Report], str]
    output: Path | None

    @classmethod
    def begin(cls, options: Options, fail_on: str | None, format_: str, output: Path | None) -> Judging:
        """Raises :class:`InputError` for options, settings and plugins that cannot be used, before anything runs."""
        from rldoctor import report
        from rldoctor.flow import session

        render = report.renderer(format_, to_file=output is not None)
        opened = session.open_session(options)
        return cls(opened, threshold_of(fail_on, opened), render, output)

    def end(self, judged: Report, shown: str | None = None) -> int:
        """Hands over the report, or what is ``shown`` in its place, and says what it comes to."""
        from rldoctor import verdict
        from rldoctor.report.summary import sentence

        judged = verdict.over(judged, self.threshold)
        deliver(self.render(redact.tree(judged)) if shown is None else redact.text(shown), self.output)
        progress(sentence(judged))
        assert judged.verdict is not None
        return OF_STATE[judged.verdict.state]


def check(
    target: Target = None,
    framework: Annotated[str | None, typer.Option(help="Read the launch file as this framework's.")] = None,
    level: Level = None,
    python: Python = None,
    model: Model = None,
    assume: Assume = None,
    from_: Annotated[list[Path] | None, typer.Option("--from", help="Judge a saved bundle; repeatable.")] = None,
    select: Codes = None,
    ignore: Codes = None,
    fail_on: FailOn = None,
    fix: Annotated[bool, typer.Option("--fix", help="Apply the safe fixes to the launch file.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the safe fixes as a diff instead of the report.")] = False,
    devices: Devices = None,
    time_limit: TimeLimit = None,
    soak: Soak = None,
    format_: Format = "rich",
    output: Output = None,
) -> int:
    """Judge an environment, and a launch where one is given."""
    from rldoctor.flow import engine, session

    options = session.Options(
        target=target,
        framework=framework,
        level=level,
        pythons=tuple(python or ()),
        model=model,
        assume=tuple(assume or ()),
        bundles=tuple(from_ or ()),
        select=split(select),
        ignore=split(ignore),
        devices=devices,
        time_limit=time_limit,
        soak=soak,
    )
    judging = Judging.begin(options, fail_on, format_, output)
    if (fix or diff) and target is None and not from_:
        raise InputError(f"{'--fix' if fix else '--diff'} mends a launch file; none was given")
    examined = session.examine(judging.session, progress)
    judged = engine.join([one.report for one in examined])
    shown = None
    if fix or diff:
        from rldoctor.edits.edit import save

        edited = session.mended(examined)
        for spelling, reason in edited.refused:
            progress(f"not applied: {spelling.text}: {reason}")
        for file in save(edited) if fix else ():
            progress(f"changed {file}")
        shown = edited.diff() if diff else None
    return judging.end(judged, shown)


def triage(
    logs: Annotated[list[str], typer.Argument(help="Log files, folders of them, .gz, or - for standard input.")],
    config: Annotated[Path | None, typer.Option(help="The launch file of the run, to spell and apply fixes.")] = None,
    bundle: Annotated[Path | None, typer.Option(help="Facts of the machine that ran it (rldoctor bundle).")] = None,
    assume: Assume = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Logs of a healthy run: what is new against them is shown; repeatable.")
    ] = None,
    all_runs: Annotated[bool, typer.Option("--all-runs", help="Judge every run in the log, not the last.")] = False,
    select: Codes = None,
    ignore: Codes = None,
    fail_on: FailOn = None,
    format_: Format = "rich",
    output: Output = None,
) -> int:
    """Find the first cause in the log of a run that crashed, stalled or silently failed."""
    from rldoctor.flow import session

    options = session.Options(
        target=config,
        bundles=(bundle,) if bundle else (),
        assume=tuple(assume or ()),
        select=split(select),
        ignore=split(ignore),
    )
    judging = Judging.begin(options, fail_on, format_, output)
    judged = session.triage(judging.session, logs, all_runs, progress, tuple(baseline or ()))
    return judging.end(judged)


def hang(
    pid: Annotated[int | None, typer.Argument(help="A process of the run; without one the only run here.")] = None,
    seconds: Annotated[float, typer.Option(help="How long to watch; nothing is stopped meanwhile.")] = 5.0,
    folder: Annotated[Path | None, typer.Option(help="Keep what is collected in this new folder.")] = None,
    from_: Annotated[
        list[Path] | None, typer.Option("--from", help="Judge a saved folder; one for each node of the run.")
    ] = None,
    dump_collectives: Annotated[
        bool, typer.Option("--dump-collectives", help="Ask torch for its flight recorder, where the run listens.")
    ] = False,
    select: Codes = None,
    ignore: Codes = None,
    fail_on: FailOn = None,
    format_: Format = "rich",
    output: Output = None,
) -> int:
    """Collect what every process of a stalled run does, and say which one the others wait for."""
    from rldoctor.flow import session
    from rldoctor.hang.examine import Wish, examine

    options = session.Options(select=split(select), ignore=split(ignore))
    judging = Judging.begin(options, fail_on, format_, output)
    saved = tuple(from_ or ())
    wish = Wish(pid=pid, seconds=seconds, folder=folder, saved=saved, trigger=dump_collectives)
    judged = examine(judging.session, wish, progress)
    return judging.end(judged)
