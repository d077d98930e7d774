"""The classes of our commands: what typer leaves to be made lighter, and what it has no word for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from rldoctor.errors import InputError
from rldoctor.io import opened, streams

_ARGUMENTS = "rldoctor.arguments"
# What launches are written in, and no report.
_LAUNCHES = (".sh", ".bash", ".sbatch", ".slurm", ".py", ".ipynb", ".yaml", ".yml", ".toml")


class Command(TyperCommand):
    """A command that takes texts and paths as they are. From 0.29 on, typer makes a pydantic model of every option of a
    command, given or not: a fifth of our start-up."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, that of ``--help`` with them."""
        return _lightened(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. Raises :class:`InputError` where its result would take the place of what it reads."""
        _keep_apart(ctx.params)
        return super().invoke(ctx)


class Group(TyperGroup):
    """The same for the options before a command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, that of ``--help`` with them."""
        return _lightened(super().get_params(ctx))


class TakesArguments(Command):
    """A command of which what stands behind ``--`` goes to the launch script, as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keeps the script's arguments back from the parser."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_ARGUMENTS] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage line, with them."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS OF THE SCRIPT]"]


def _keep_apart(given: Mapping[str, Any]) -> None:
    """Raises :class:`InputError` where ``output`` is a file that another argument names, or a launch; what is read
    without being named is noted until the result is written."""
    output = given.get("output")
    if output is None or not Path(output).exists():
        return
    opened.note()
    if not Path(output).is_file():
        return
    for name in _texts(value for key, value in given.items() if key != "output"):
        if Path(name).is_file() and Path(name).samefile(output):
            raise InputError(streams.TAKES_ITS_PLACE.format(output))
    if str(output).endswith(_LAUNCHES):
        raise InputError(f"--output {output} is a launch file by its name: name another, nothing was written")


def _texts(values: Iterator[Any]) -> Iterator[str]:
    for value in values:
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, str | Path) and "\0" not in str(one):
                yield str(one)


def script_arguments(context: typer.Context, targets: Sequence[Path]) -> tuple[str, ...] | None:
    """What stands behind ``--``, None where nothing does. Raises :class:`InputError` where not one script takes it."""
    found: tuple[str, ...] | None = context.meta.get(_ARGUMENTS)
    if found is not None and len(targets) != 1:
        how = "" if targets else f": rldoctor {context.info_name} SCRIPT -- ARGUMENTS"
        raise InputError(f"what stands behind -- goes to one launch script; {len(targets)} are given{how}")
    return found


def _lightened(params: list[Any]) -> list[Any]:
    """The parameters, which read their values without typer's models where its release makes them."""
    for param in params:
        if hasattr(param, "type_descriptor") and "process_value" not in vars(param):
            param.process_value = partial(_processed, param, param.process_value)
    return params


def _processed(param: Any, by_typer: Callable[..., Any], context: Any, given: Any) -> Any:
    """The value of a parameter as its command gets it; numbers and what is missing are typer's own."""
    kind = param.type_descriptor.annotation
    value: Any
    if given is None and not param.required:
        value = () if param.multiple or param.nargs == -1 else None
    elif isinstance(kind, type) and type(given) is kind:
        value = given
    elif given and kind in (str, Path):
        value = kind(given)
    elif given and kind in (list[str], list[Path]):
        value = [get_args(kind)[0](one) for one in given]
    else:
        return by_typer(context, given)
    return value if param.callback is None else param.callback(context, param, value)
