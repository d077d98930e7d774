"""Install commands of fixes, for the interpreter that was judged, whatever ``pip`` is first on PATH."""

from __future__ import annotations

import shlex
from dataclasses import replace

from rldoctor.model import CheckResult, Finding

# Beside these a text in quotes means what it says.
_OF_THE_SHELL = frozenset("$`;&|*~#")


def by(python: str | None, result: CheckResult) -> CheckResult:
    """The result with its install commands for ``python``, or for the one that is first on PATH."""
    found = tuple(finding_by(python, one) for one in result.findings)
    return replace(result, findings=found) if found != result.findings else result


def finding_by(python: str | None, finding: Finding) -> Finding:
    """The same for one finding."""
    fixes = (replace(fix, commands=tuple(_command(python, one) for one in fix.commands)) for fix in finding.fixes)
    return replace(finding, fixes=tuple(fixes))


def _command(python: str | None, command: str) -> str:
    start, _, rest = command.partition(" ")
    if start == "pip":
        return f"{shlex.quote(python or 'python')} -m pip {_quoted(rest)}"
    if python is not None and command.startswith("uv pip install "):
        return f"uv pip install --python {shlex.quote(python)} {command.removeprefix('uv pip install ')}"
    return command


def _quoted(arguments: str) -> str:
    """Arguments in quotes where they need them, and in the same ones everywhere."""
    if _OF_THE_SHELL.intersection(arguments):
        return arguments
    try:
        return shlex.join(shlex.split(arguments))
    except ValueError:  # a plugin's quote that does not end
        return arguments
