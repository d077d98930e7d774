"""The command line: one thin function per command; exit codes live here only."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from copy import copy
from typing import Annotated

import typer
from typer.models import CommandInfo

from rldoctor import __version__, redact
from rldoctor.catalogue import foreign
from rldoctor.cli import catalogue, facts, gate, judging, timeout, watching
from rldoctor.cli.commands import Command, Group, TakesArguments
from rldoctor.cli.exits import ExitCode
from rldoctor.cli.targets import LOGS
from rldoctor.errors import InputError, one_line
from rldoctor.io import streams
from rldoctor.io.streams import progress
from rldoctor.probes import kept

# What the shell sets when it asks for completions, which typer answers by leaving.
COMPLETE = "_RLDOCTOR_COMPLETE"
COMPLETIONS = frozenset({"--show-completion", "--install-completion"})
NEXT = """What to type next:
  rldoctor check train.sh    before training: the launch file, for this machine
  rldoctor check             the environment alone
  rldoctor watch run.log     while it trains: findings as they arise
  rldoctor triage run.log    after a crash: its log, or a folder of logs
  rldoctor hang              while it stands still: on the machine, beside the run
  rldoctor --help            everything else"""

# Newer releases of typer carry click inside, older ones depend on it; its base error is reached the same way in both.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="rldoctor",
    cls=Group,
    help="Finds what will break, or broke, your RL run with vLLM rollouts, and prints the fix.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

app.command(cls=TakesArguments)(judging.check)
for _command in (judging.triage, judging.hang, facts.diff, facts.fleet, facts.compat):
    app.command(cls=Command)(_command)
app.command(cls=Command)(watching.watch)
app.command(cls=TakesArguments)(facts.plan)
app.command(cls=TakesArguments)(facts.bundle)
app.command(cls=Command)(gate.baseline)
app.command(cls=Command)(gate.init)
app.command(cls=Command)(gate.machine)
app.command(cls=Command)(catalogue.explain)
app.command(name="list", cls=Command)(catalogue.list_checks)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show release and tables.")] = False,
) -> None:
    """The options of `rldoctor` itself."""
    if version:
        from rldoctor.tables import declarations

        typer.echo(f"rldoctor {__version__} (tables of {declarations.date()})")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(NEXT)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console entry point: runs a command and turns what the user got wrong into one line and exit code 2."""
    # Nearly all that a start-up makes lives to the end; looking for garbage every 700 objects costs a tenth of it,
    # every 50,000 still a twentieth.
    gc.set_threshold(200_000, 20, 50)
    streams.prepare()
    arguments = sys.argv[1:] if arguments is None else arguments
    redact.begin(os.environ, arguments)
    try:
        signal.signal(signal.SIGTERM, _terminated)
        kept.sweep()
        _refuse_empty(arguments)
        code = _with_what_is_asked(arguments)(args=arguments, prog_name="rldoctor", standalone_mode=False)
    except InputError as error:
        progress(str(error))
        code = ExitCode.CANNOT_JUDGE
    except ClickException as error:
        progress(error.format_message() + _meant(arguments) + _usage(error))  # type: ignore[attr-defined]
        code = ExitCode.CANNOT_JUDGE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except Terminated as signalled:
        code = 128 + signalled.number
    except timeout.OutOfTimeError as limit:
        progress(f"not judged within {limit}: rldoctor {shlex.join(redact.argv(arguments))}")
        code = ExitCode.CANNOT_JUDGE
    except BrokenPipeError:  # the reader of our help left
        streams.discard(sys.stdout)
        code = ExitCode.OK
    except OSError as error:  # a full disk, no more processes: the machine's trouble, no finding
        streams.discard(sys.stdout)
        progress(one_line(error))
        code = ExitCode.CANNOT_JUDGE
    except (Exception, SystemExit) as error:
        # Typer leaves so when it has answered a shell, or shown or installed what a shell asks with.
        if isinstance(error, SystemExit) and (COMPLETE in os.environ or COMPLETIONS.intersection(arguments)):
            raise
        # A mistake of ours; exit code 1 would say that it found something.
        import traceback

        progress(traceback.format_exc())
        progress(f"a mistake in rldoctor itself, nothing was judged: {one_line(error)}")
        code = ExitCode.CANNOT_JUDGE
    finally:
        timeout.stop()
    if code == ExitCode.INTERRUPTED:  # typer makes this code of Ctrl-C without a word
        progress("interrupted")
    sys.exit(int(code or 0))


def _with_what_is_asked(arguments: Sequence[str]) -> typer.Typer:
    """The application, with the one command that is asked for: typer works out the options of all that it has."""
    asked = copy(app)
    asked.registered_commands = [one for one in app.registered_commands if _name(one) in arguments[:1]]
    return asked if asked.registered_commands else app


def _name(command: CommandInfo) -> str:
    return command.name or str(getattr(command.callback, "__name__", ""))


def console() -> None:
    """:func:`main` as all that a process does: no thread or hook of a plugin keeps it from ending."""
    try:
        main()
    except SystemExit as left:
        if foreign.present():
            from rldoctor.probes import kept

            kept.remove()
            foreign.leave(left.code if isinstance(left.code, int) else 0)
        raise
    finally:
        # The interpreter looks for garbage as it ends, several times, over all that is left: a fifth of a start-up.
        gc.freeze()


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Raises :class:`InputError` for an empty argument, which would be read as the folder one is in, or as all codes.
    What stands behind ``--`` is the launch's own."""
    for argument in arguments:
        if argument == "--":
            return
        if not argument:
            raise InputError("an empty argument: is a variable of the shell not set?")


def _meant(arguments: Sequence[str]) -> str:
    """What to type where a file, or an option of the command, stands in its place."""
    commands = [argument for argument in arguments if argument in map(_name, app.registered_commands)]
    if commands and commands[0] != arguments[0]:
        return f" (the options of a command stand behind it: rldoctor {commands[0]} --help)"
    given = next((argument for argument in arguments if not argument.startswith("-")), "")
    if commands or not given:
        return ""
    if not os.path.exists(given):  # noqa: PTH110 (Path's own may raise)
        return " (rldoctor --help lists the commands)"
    command = "triage" if given.endswith(LOGS) else "check"
    return f" A file needs a command before it: rldoctor {command} {shlex.quote(given)}"


def _usage(error: Exception) -> str:
    """How a command is called, where an argument of it was left out."""
    context = getattr(error, "ctx", None)
    if context is None or not hasattr(error, "param_type") or context.command_path == context.info_name:
        return ""
    return f" {' '.join(context.get_usage().split())}"


class Terminated(BaseException):
    """Unwinds the stack like Ctrl-C does, so that whoever started a child gets to end it; no plugin's
    ``except SystemExit`` stops it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _terminated(number: int, frame: object) -> None:
    timeout.end_if_over()
    raise Terminated(number)
