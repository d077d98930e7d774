"""The options that several commands have, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rldoctor.cli import completing
from rldoctor.errors import InputError

Codes = Annotated[
    list[str] | None,
    typer.Option(help="Codes or prefixes (RLD1); repeatable or comma-separated.", autocompletion=completing.codes),
]
IgnoredCodes = Annotated[
    list[str] | None,
    typer.Option(
        help="Codes or prefixes that are known here: what they find is set aside and counted.",
        autocompletion=completing.codes,
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        help="Codes or prefixes that must be judged: exit status 2 where one could not be.",
        autocompletion=completing.codes,
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format", help="rich, json, sarif, junit, github, markdown or html.", autocompletion=completing.formats
    ),
]
Output = Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every check, with its reason.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show findings only.")]
Python = Annotated[
    list[str] | None,
    typer.Option(help="Interpreter of the environment to examine; repeatable as ROLE=PATH where roles differ."),
]
Assume = Annotated[
    list[str] | None,
    typer.Option(help="PKG==VERSION, machine.json, or 8xH100-80GB and the like: judge as if it were so; repeatable."),
]
Model = Annotated[
    Path | None,
    typer.Option(help="A local model directory. With weights in it the rollout runs on it, else on a miniature of it."),
]
Devices = Annotated[str | None, typer.Option(help="GPUs that probes may use, such as 0,1.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds for each child process.")]
Soak = Annotated[float | None, typer.Option(help="Minutes for which the launch's traffic is kept up.")]
Budget = Annotated[float | None, typer.Option(help="Minutes for all probes: those that judge most for their time.")]
Keep = Annotated[
    Path | None, typer.Option(help="Folder for what each engine shows; a run that was interrupted goes on behind it.")
]
Step = Annotated[
    str | None, typer.Option(metavar="FILE:FUNCTION", help="A function of yours to run on pretended devices, as ranks.")
]
Ray = Annotated[
    str | None, typer.Option(help="A running Ray cluster to place the launch on (auto, HOST:PORT); else RAY_ADDRESS.")
]
Targets = Annotated[list[Path] | None, typer.Argument(help="Launch files, or a local model directory.")]
Target = Annotated[Path | None, typer.Argument(help="A launch file or a local model directory.")]
Level = Annotated[
    str | None,
    typer.Option(
        help="auto (default), static, imports, devices, rollout or compare.", autocompletion=completing.levels
    ),
]
FailOn = Annotated[
    str | None, typer.Option(help="error (default), warning or never.", autocompletion=completing.thresholds)
]
Framework = Annotated[
    str | None,
    typer.Option(help="Read the launch file as this framework's.", autocompletion=completing.frameworks),
]


def split(codes: list[str] | None) -> tuple[str, ...]:
    """The codes of an option that may be repeated, and hold several after commas."""
    parts = [part.strip().upper() for item in codes or () for part in item.split(",")]
    if codes and not any(parts):
        raise InputError(f"{','.join(codes)!r}: no code, where codes or prefixes are expected, such as RLD1,RLD204")
    return tuple(part for part in parts if part)
