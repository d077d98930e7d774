"""The options that several commands have, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

PATH = click.Path(path_type=Path)

target = click.argument("target", type=PATH, required=False)
targets = click.argument("targets", type=PATH, nargs=-1)
python = click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="PATH",
    help="Interpreter of the environment to examine; repeatable as ROLE=PATH where roles differ.",
)
assume = click.option(
    "--assume",
    multiple=True,
    metavar="WHAT",
    help="PKG==VERSION or machine.json: judge as if it were so; repeatable.",
)
model = click.option(
    "--model",
    type=PATH,
    help="A local model directory. With weights in it the rollout runs on it, else on a miniature of it.",
)
devices = click.option("--devices", metavar="NUMBERS", help="GPUs that probes may use, such as 0,1.")
time_limit = click.option("--time-limit", type=float, metavar="SECONDS", help="Seconds for each child process.")
soak = click.option("--soak", type=float, metavar="MINUTES", help="Minutes of the launch's traffic without a pause.")
output = click.option("--output", type=PATH, help="Write to this file instead of standard output.")
format_of_two = click.option("--format", "format_", default="rich", metavar="NAME", help="rich or json.")


_ARGUMENTS = "rldoctor.arguments"


class TakesArguments(click.Command):
    """A command of which what stands behind ``--`` goes to the launch script, as it is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the script's arguments back from the parser."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_ARGUMENTS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with them."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS OF THE SCRIPT]"]


def arguments() -> tuple[str, ...] | None:
    """What stands behind ``--``, None where nothing does."""
    found: tuple[str, ...] | None = click.get_current_context().meta.get(_ARGUMENTS)
    return found


def level(default: str | None = None) -> Decorator[Any]:
    """How deep probes go."""
    known = "auto (default), static, imports, devices, rollout or compare."
    return click.option("--level", default=default, metavar="NAME", help=known)


def bundles(text: str) -> Decorator[Any]:
    """What was saved before."""
    return click.option("--from", "saved", type=PATH, multiple=True, help=text)


_SHAPE = (
    click.option(
        "--select", multiple=True, metavar="CODES", help="Codes or prefixes (RLD1); repeatable or comma-separated."
    ),
    click.option("--ignore", multiple=True, metavar="CODES", help="Codes or prefixes to leave out."),
    click.option("--fail-on", metavar="SEVERITY", help="error (default), warning or never."),
    click.option(
        "--format",
        "format_",
        default="rich",
        metavar="NAME",
        help="rich, json, sarif, junit, github, markdown or html.",
    ),
    output,
    click.option("--verbose", "-v", is_flag=True, help="Show every check, with its reason."),
    click.option("--quiet", "-q", is_flag=True, help="Show findings only."),
)


def judging(command: F) -> F:
    """What every command that judges may be asked: which codes, and what the report looks like."""
    for option in reversed(_SHAPE):
        command = option(command)
    return command


def split(codes: tuple[str, ...]) -> tuple[str, ...]:
    """The codes of an option that may be repeated, and hold several after commas."""
    return tuple(part.strip().upper() for item in codes for part in item.split(",") if part.strip())
