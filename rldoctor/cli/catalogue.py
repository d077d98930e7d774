"""The commands that tell what is known: all checks, and the document of one."""

from __future__ import annotations

import click

from rldoctor.cli.exits import ExitCode
from rldoctor.errors import InputError
from rldoctor.streams import deliver, progress


@click.command()
@click.argument("code")
def explain(code: str) -> int:
    """Print the document of a check, with an example that fires and one that stays quiet.

    CODE is one such as RLD201, or its name."""
    from rldoctor import registry
    from rldoctor.report import explanation

    loaded = registry.load()
    found = loaded.checks.get(code.upper()) or next((c for c in loaded.checks.values() if c.name == code), None)
    if found is None:
        raise InputError(f"unknown code {code!r}; `rldoctor list` shows all codes")
    deliver(explanation.render(found, loaded))
    return ExitCode.OK


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print what completes rldoctor's commands and options in a shell.

    Put  eval "$(rldoctor completion bash)"  into ~/.bashrc."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    deliver(found(root, {}, "rldoctor", "_RLDOCTOR_COMPLETE").source())
    return ExitCode.OK


@click.command(name="list")
def list_checks() -> int:
    """List all checks, with the plugin that each comes from."""
    from rldoctor import registry

    found = registry.load()
    deliver("\n".join(f"{code}  {item.name:34} {found.origin[code]}" for code, item in sorted(found.checks.items())))
    for broken in found.broken:
        progress(f"plugin {broken.plugin} was left out: {broken.reason}")
    return ExitCode.OK
