"""The commands that tell what is known: all checks, and the document of one."""

from __future__ import annotations

from typing import Annotated

import typer

from rldoctor.cli import completing
from rldoctor.cli.exits import ExitCode
from rldoctor.io.streams import deliver, progress


def explain(
    code: Annotated[str, typer.Argument(help="A code such as RLD201, or its name.", autocompletion=completing.codes)],
) -> int:
    """Print the document of a check, with an example that fires and one that stays quiet."""
    from rldoctor.catalogue import registry
    from rldoctor.report import explanation

    loaded = registry.load()
    found = loaded.checks.get(code.upper()) or next(
        (c for c in loaded.checks.values() if code in (c.name, *c.formerly)), None
    )
    if found is None:
        raise loaded.unknown(code)
    deliver(explanation.render(found, loaded))
    return ExitCode.OK


def list_checks() -> int:
    """List all checks, with the plugin that each comes from."""
    from rldoctor.catalogue import registry

    found = registry.load()
    deliver("\n".join(f"{code}  {item.name:34} {found.origin[code]}" for code, item in sorted(found.checks.items())))
    for broken in found.broken:
        progress(str(broken))
    return ExitCode.OK
