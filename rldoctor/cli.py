"""The command line: one thin function per command; exit codes live here only."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldoctor import __version__, streams
from rldoctor.errors import InputError, one_line
from rldoctor.model import Outcome, Report, Severity
from rldoctor.streams import deliver, progress

if TYPE_CHECKING:
    from rldoctor.session import Session


class ExitCode(IntEnum):
    """What the process says to its caller."""

    OK = 0
    FINDINGS = 1
    CANNOT_JUDGE = 2
    INTERRUPTED = 130


# Newer releases of typer carry click inside, older ones depend on it; its base error is reached the same way in both.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="rldoctor",
    help="Finds what will break, or broke, your RL run with vLLM rollouts, and prints the fix.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Codes = Annotated[list[str] | None, typer.Option(help="Codes or prefixes (RLD1); repeatable or comma-separated.")]
Format = Annotated[str, typer.Option("--format", help="rich, json, sarif, junit, github, markdown or html.")]
Output = Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")]
Python = Annotated[
    list[str] | None,
    typer.Option(help="Interpreter of the environment to examine; repeatable as ROLE=PATH where roles differ."),
]
Assume = Annotated[
    list[str] | None, typer.Option(help="PKG==VERSION or machine.json: judge as if it were so; repeatable.")
]
Model = Annotated[
    Path | None,
    typer.Option(help="A local model directory. With weights in it the rollout runs on it, else on a miniature of it."),
]
Devices = Annotated[str | None, typer.Option(help="GPUs that probes may use, such as 0,1.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds for each child process.")]
Soak = Annotated[float | None, typer.Option(help="Minutes for which the launch's traffic is kept up.")]
Target = Annotated[Path | None, typer.Argument(help="A launch file or a local model directory.")]
Level = Annotated[str | None, typer.Option(help="auto (default), static, imports, devices, rollout or compare.")]
FailOn = Annotated[str | None, typer.Option(help="error (default), warning or never.")]
THRESHOLDS = ("error", "warning", "never")


@app.command()
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
    from rldoctor import engine, report, session
    from rldoctor.report.summary import sentence

    render = report.renderer(format_, to_file=output is not None)
    opened = session.open_session(
        session.Options(
            target=target,
            framework=framework,
            level=level,
            pythons=tuple(python or ()),
            model=model,
            assume=tuple(assume or ()),
            bundles=tuple(from_ or ()),
            select=_split(select),
            ignore=_split(ignore),
            devices=devices,
            time_limit=time_limit,
            soak=soak,
        )
    )
    threshold = _threshold(fail_on, opened)
    if (fix or diff) and target is None and not from_:
        raise InputError(f"{'--fix' if fix else '--diff'} mends a launch file; none was given")
    examined = session.examine(opened, progress)
    judged = engine.join([one.report for one in examined])
    if fix or diff:
        from rldoctor.launch.edits.edit import save

        edited = session.mended(examined)
        for spelling, reason in edited.refused:
            progress(f"not applied: {spelling.text}: {reason}")
        for file in save(edited) if fix else ():
            progress(f"changed {file}")
        shown = edited.diff() if diff else render(judged)
    else:
        shown = render(judged)
    deliver(shown, output)
    progress(sentence(judged))
    return _verdict(judged, threshold, opened.required)


@app.command()
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
    from rldoctor import report, session
    from rldoctor.report.summary import sentence

    render = report.renderer(format_, to_file=output is not None)
    opened = session.open_session(
        session.Options(
            target=config,
            bundles=(bundle,) if bundle else (),
            assume=tuple(assume or ()),
            select=_split(select),
            ignore=_split(ignore),
        )
    )
    threshold = _threshold(fail_on, opened)
    judged = session.triage(opened, logs, all_runs, progress, tuple(baseline or ()))
    deliver(render(judged), output)
    progress(sentence(judged))
    return _verdict(judged, threshold, opened.required)


@app.command()
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
    from rldoctor import report, session
    from rldoctor.hang.examine import Wish, examine
    from rldoctor.report.summary import sentence

    render = report.renderer(format_, to_file=output is not None)
    opened = session.open_session(session.Options(select=_split(select), ignore=_split(ignore)))
    threshold = _threshold(fail_on, opened)
    saved = tuple(from_ or ())
    wish = Wish(pid=pid, seconds=seconds, folder=folder, saved=saved, trigger=dump_collectives)
    judged = examine(opened, wish, progress)
    deliver(render(judged), output)
    progress(sentence(judged))
    # Without stacks "no findings" would say more than is known.
    return _verdict(judged, threshold, {r.code for r in judged.results if r.outcome is Outcome.NOT_CHECKED})


@app.command()
def bundle(
    target: Target = None,
    level: Level = "static",
    python: Python = None,
    model: Model = None,
    devices: Devices = None,
    time_limit: TimeLimit = None,
    output: Output = None,
) -> int:
    """Save the facts of this machine, secrets removed, to be judged elsewhere with `check --from`."""
    from rldoctor import bundle as bundles
    from rldoctor import session

    opened = session.open_session(
        session.Options(
            target=target,
            level=level,
            pythons=tuple(python or ()),
            model=model,
            devices=devices,
            time_limit=time_limit,
        )
    )
    deliver(bundles.dump(session.gather(opened, progress)) + "\n", output)
    return ExitCode.OK


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="A bundle, of the machine where it works.")],
    second: Annotated[Path, typer.Argument(help="A bundle, of the machine where it fails.")],
    format_: Annotated[str, typer.Option("--format", help="rich or json.")] = "rich",
    output: Output = None,
) -> int:
    """Show what differs between two bundles: packages, GPUs, variables, settings, limits."""
    from rldoctor import bundle as bundles
    from rldoctor.diff import differences
    from rldoctor.report import difference

    render = difference.renderer(format_, to_file=output is not None)
    found = differences(bundles.load(first), bundles.load(second))
    deliver(render(found, str(first), str(second)), output)
    progress(f"{len(found)} {'difference' if len(found) == 1 else 'differences'}")
    return ExitCode.FINDINGS if found else ExitCode.OK


@app.command()
def compat(
    packages: Annotated[
        list[str] | None, typer.Argument(help="What there shall be, such as trl==0.19.0 vllm; else what is installed.")
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
) -> int:
    """Show which versions go together, and the changes without which these do not."""
    from rldoctor import session
    from rldoctor.compat import answer, report

    render = report.renderer(format_, to_file=output is not None)
    if refresh:
        from rldoctor.knowledge import refresh as table

        if python or assume or from_:
            raise InputError("--refresh renews the table of releases and judges nothing: leave out what to judge")
        return ExitCode.OK if table.renew(packages or (), output, index, progress) else ExitCode.CANNOT_JUDGE
    if len(python or ()) > 1 or len(from_ or ()) > 1:
        raise InputError("the versions of one environment are judged at a time; give one --python or --from")
    opened = session.open_session(
        session.Options(
            level="static", pythons=tuple(python or ()), assume=tuple(assume or ()), bundles=tuple(from_ or ())
        )
    )
    found = answer.judge(session.gather(opened, progress), packages or ())
    deliver(render(found), output)
    progress(answer.sentence(found))
    return {"consistent": ExitCode.OK, "changes": ExitCode.FINDINGS}.get(found.outcome, ExitCode.CANNOT_JUDGE)


@app.command()
def explain(code: Annotated[str, typer.Argument(help="A code such as RLD201, or its name.")]) -> int:
    """Print the document of a check, with an example that fires and one that stays quiet."""
    from rldoctor import registry
    from rldoctor.report import explanation

    loaded = registry.load()
    found = loaded.checks.get(code.upper()) or next((c for c in loaded.checks.values() if c.name == code), None)
    if found is None:
        raise InputError(f"unknown code {code!r}; `rldoctor list` shows all codes")
    deliver(explanation.render(found, loaded))
    return ExitCode.OK


@app.command(name="list")
def list_checks() -> int:
    """List all checks, with the plugin that each comes from."""
    from rldoctor import registry

    found = registry.load()
    deliver("\n".join(f"{code}  {item.name:34} {found.origin[code]}" for code, item in sorted(found.checks.items())))
    for broken in found.broken:
        progress(f"plugin {broken.plugin} was left out: {broken.reason}")
    return ExitCode.OK


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """The options of `rldoctor` itself."""
    if version:
        typer.echo(f"rldoctor {__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """The console entry point: runs a command and turns what the user got wrong into one line and exit code 2."""
    # Nearly all that a start-up makes lives to the end; looking for garbage every 700 objects costs a tenth of it.
    gc.set_threshold(50_000, 20, 50)
    streams.prepare()
    try:
        signal.signal(signal.SIGTERM, _terminated)
        code = app(args=arguments, standalone_mode=False)
    except InputError as error:
        progress(str(error))
        code = ExitCode.CANNOT_JUDGE
    except ClickException as error:
        progress(error.format_message())  # type: ignore[attr-defined]
        code = ExitCode.CANNOT_JUDGE
    except (KeyboardInterrupt, typer.Abort):
        progress("interrupted")
        code = ExitCode.INTERRUPTED
    except Terminated as signalled:
        code = 128 + signalled.number
    except BrokenPipeError:  # the reader of our help left
        streams.discard(sys.stdout)
        code = ExitCode.OK
    except OSError as error:  # a full disk, no more processes: the machine's trouble, no finding
        streams.discard(sys.stdout)
        progress(one_line(error))
        code = ExitCode.CANNOT_JUDGE
    except (Exception, SystemExit) as error:  # a mistake of ours; exit code 1 would say that it found something
        import traceback

        progress(traceback.format_exc())
        progress(f"a mistake in rldoctor itself, nothing was judged: {one_line(error)}")
        code = ExitCode.CANNOT_JUDGE
    sys.exit(int(code or 0))


class Terminated(BaseException):
    """Unwinds the stack like Ctrl-C does, so that whoever started a child gets to end it; no plugin's
    ``except SystemExit`` stops it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _terminated(number: int, frame: object) -> None:
    raise Terminated(number)


def _threshold(given: str | None, opened: Session) -> str:
    threshold = given or opened.settings.fail_on or "error"
    if threshold not in THRESHOLDS:
        raise InputError(f"unknown --fail-on {threshold!r}; known are {', '.join(THRESHOLDS)}")
    return threshold


def _verdict(report: Report, threshold: str, required: set[str]) -> ExitCode:
    failing = {"error": {Severity.ERROR}, "warning": {Severity.ERROR, Severity.WARNING}, "never": set()}[threshold]
    if any(finding.severity in failing for finding in report.findings):
        return ExitCode.FINDINGS
    judged = {r.code for r in report.results if r.outcome in (Outcome.PASS, Outcome.FINDINGS)}
    settled = judged | {r.code for r in report.results if r.outcome is Outcome.NOT_APPLICABLE}
    return ExitCode.OK if judged and required <= settled else ExitCode.CANNOT_JUDGE


def _split(codes: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip().upper() for item in codes or () for part in item.split(",") if part.strip())
