"""The commands that judge: an environment and its launch, the log of a run, a run that stands still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldoctor import redact
from rldoctor.cli.commands import script_arguments
from rldoctor.cli.exits import OF_STATE, threshold_of
from rldoctor.cli.options import (
    Assume,
    Budget,
    Codes,
    Devices,
    FailOn,
    Format,
    Framework,
    IgnoredCodes,
    Keep,
    Level,
    Model,
    Output,
    Python,
    Quiet,
    Ray,
    Require,
    Soak,
    Step,
    Targets,
    TimeLimit,
    Verbose,
    split,
)
from rldoctor.cli.targets import refuse, unread
from rldoctor.cli.timeout import Timeout
from rldoctor.errors import InputError
from rldoctor.io.streams import deliver, progress
from rldoctor.model import Report
from rldoctor.records import dataclass

if TYPE_CHECKING:
    from rldoctor.flow.run import Examined
    from rldoctor.flow.session import Options, Session
    from rldoctor.project.baseline import Baseline


# So often --fix mends what its own changes uncover: another batch, another micro batch.
MEND_ROUNDS = 4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a report is to come: the options that every command that judges has."""

    fail_on: str | None
    format: str
    output: Path | None
    verbose: bool
    quiet: bool

    @property
    def drawn(self) -> bool:
        """Whether the report has pictures."""
        return self.format == "html" or (self.format == "rich" and self.verbose)


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
        text = self.render(redact.tree(judged)) if shown is None else redact.text(shown)
        commands = shown is None and self.shape.format == "github"
        deliver(text, self.shape.output, foreign=shown is not None, commands=commands)
        ends_with_it = self.shape.format in ("rich", "github")
        if not ends_with_it or self.shape.output is not None or shown is not None:
            progress(summed_up(judged))
        assert judged.verdict is not None
        return OF_STATE[judged.verdict.state]


def check(
    context: typer.Context,
    targets: Targets = None,
    framework: Framework = None,
    level: Level = None,
    python: Python = None,
    model: Model = None,
    assume: Assume = None,
    from_: Annotated[list[Path] | None, typer.Option("--from", help="Judge a saved bundle; repeatable.")] = None,
    select: Codes = None,
    ignore: IgnoredCodes = None,
    require: Require = None,
    baseline: Annotated[
        Path | None, typer.Option(help="An earlier JSON report: what it has is known, and only what is new fails.")
    ] = None,
    fail_on: FailOn = None,
    fix: Annotated[bool, typer.Option("--fix", help="Apply the safe fixes to the launch file.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the safe fixes as a diff instead of the report.")] = False,
    devices: Devices = None,
    time_limit: TimeLimit = None,
    soak: Soak = None,
    budget: Budget = None,
    keep: Keep = None,
    step: Step = None,
    ray: Ray = None,
    format_: Format = "rich",
    output: Output = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    timeout: Timeout = None,
) -> int:
    """Judge an environment, and the launches that are given. What stands behind -- is given to the launch script:
    rldoctor check train.sh -- --lr 1e-6.

    Exit status: 0 judged, and nothing at or above --fail-on; 1 findings; 2 could not judge, with what is missing.

    The fixes of a finding are safe (--fix applies them: the run does the same work), unsafe (they change results or
    speed: your decision), or for display (done by hand, in another file or place)."""
    from rldoctor.flow import run, session

    options = session.Options(
        framework=framework,
        arguments=script_arguments(context, targets or ()),
        level=level,
        pythons=tuple(python or ()),
        model=model,
        assume=tuple(assume or ()),
        bundles=tuple(from_ or ()),
        select=split(select),
        ignore=split(ignore),
        require=split(require),
        devices=devices,
        time_limit=time_limit,
        soak=soak,
        budget=budget,
        keep=keep,
        step=step,
        ray=ray,
    )
    shape = Shape(fail_on=fail_on, format=format_, output=output, verbose=verbose, quiet=quiet)
    judging = Judging.begin(options, shape)
    refuse(targets or [])
    if not targets and not from_ and (note := unread()):
        progress(note)
    if (fix or diff) and not targets and not from_:
        raise InputError(f"{'--fix' if fix else '--diff'} mends a launch file; none was given")

    known = _baseline(judging.session, baseline)
    found = run.examine_all(judging.session, targets or (), progress)
    reported: set[str] = set()
    shown, changed = _mended(found, reported, write=fix, show=diff) if fix or diff else (None, ())
    if (fix or diff) and not (changed or shown or reported):
        progress("nothing is changed: no finding has a fix for a file that --fix may apply")
    files = dict.fromkeys(changed)
    recorded = bool(from_) and not targets
    for left in reversed(range(MEND_ROUNDS)):
        if not changed or recorded:  # a bundle tells of the launch as it was
            break
        # The verdict is on what is there now, and one fix may uncover another.
        found = run.examine_all(judging.session, targets or (), progress)
        changed = _mended(found, reported, write=True, show=False)[1] if left else ()
        files.update(dict.fromkeys(changed))
    judged = _joined(found, shape, known)
    when = "as it was before" if recorded else "after"
    notes = (f"judged {when} --fix changed {', '.join(files)}",) if files else ()
    return judging.end(replace(judged, notes=(*notes, *judged.notes)), shown)


def _mended(
    found: list[Examined], reported: set[str], *, write: bool, show: bool
) -> tuple[str | None, tuple[str, ...]]:
    """The safe fixes as a diff where it is to be shown, and the files that they changed where these are written.
    ``reported`` are the refusals that were reported already."""
    from rldoctor.edits.edit import save
    from rldoctor.flow import run

    edited = run.mended(found)
    for spelling, reason in edited.refused:
        refusal = f"not applied: {spelling.text}: {reason}"
        if refusal not in reported:
            progress(refusal)
        reported.add(refusal)
    changed = save(edited) if write else ()
    for file in changed:
        progress(f"changed {file}")
    return edited.diff() if show else None, tuple(map(str, changed))


def _joined(found: list[Examined], shape: Shape, known: Baseline | None) -> Report:
    """One report of all launches: with what its format shows beside the findings, without what is known already."""
    from rldoctor.flow import examination, run

    if shape.format == "sarif":
        found = run.with_changes(found)
    if shape.drawn:
        found = [replace(one, report=run.illustrated(one.case, one.report)) for one in found]
    judged = examination.join([one.report for one in found])
    if known is None:
        return judged
    from rldoctor.project.baseline import against

    return against(judged, known, run.files(found))


def _baseline(session: Session, given: Path | None) -> Baseline | None:
    """The findings that are known already: the option's, or the project's."""
    project = session.settings
    file = given
    if file is None and project.baseline is not None and project.file is not None:
        file = project.file.parent / project.baseline
    if file is None:
        return None
    from rldoctor.project import baseline, settings

    try:
        return baseline.load(file)
    except InputError as error:
        if given is not None:
            raise
        raise InputError(f"{settings.place(project, 'baseline')}: {error}") from error


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
    ignore: IgnoredCodes = None,
    fail_on: FailOn = None,
    format_: Format = "rich",
    output: Output = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    timeout: Timeout = None,
) -> int:
    """Find the first cause in the log of a run that crashed, stalled or silently failed."""
    from rldoctor.flow import run, session

    refuse([config] if config is not None else [])
    options = session.Options(
        target=config,
        bundles=(bundle,) if bundle else (),
        assume=tuple(assume or ()),
        select=split(select),
        ignore=split(ignore),
    )
    judging = Judging.begin(
        options, Shape(fail_on=fail_on, format=format_, output=output, verbose=verbose, quiet=quiet)
    )
    judged = run.triage(judging.session, logs, all_runs, progress, tuple(baseline or ()), judging.shape.drawn)
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
    ignore: IgnoredCodes = None,
    fail_on: FailOn = None,
    format_: Format = "rich",
    output: Output = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
    timeout: Timeout = None,
) -> int:
    """Collect what every process of a stalled run does, and say which one the others wait for."""
    from rldoctor.flow import session
    from rldoctor.hang.examine import HangRequest, examine

    options = session.Options(select=split(select), ignore=split(ignore))
    judging = Judging.begin(
        options, Shape(fail_on=fail_on, format=format_, output=output, verbose=verbose, quiet=quiet)
    )
    request = HangRequest(pid=pid, seconds=seconds, folder=folder, saved=tuple(from_ or ()), trigger=dump_collectives)
    judged = examine(judging.session, request, progress)
    return judging.end(judged)
