"""What people hand over in the place of a launch file, and what to type instead."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rldoctor.errors import InputError
from rldoctor.io import untrusted

# How the names of logs end, and those of launch files do not.
LOGS = (".log", ".out", ".err", ".gz")
# A bundle holds the facts of one machine; see rldoctor.bundle.
_MAX_BYTES = 64 << 20
_TRACEBACK = re.compile(rb"^(?:.{0,200}\W)?Traceback \(most recent call last\):\s*$", re.MULTILINE)


def refuse(targets: Sequence[Path], command: str = "check") -> None:
    """Raises :class:`InputError` for a command line, a pipe, an address, a log, and what rldoctor itself wrote.
    ``command`` is the one that was typed."""
    words = [word for target in targets for word in str(target).split()]
    script = next((word for word in words if untrusted.is_file(word)), None)
    for target in targets:
        if untrusted.is_file(target):
            _refuse_file(target)
        elif str(target) == "-":
            raise InputError("-: what a launch names stands beside its file, so standard input is not read: save it")
        elif not target.exists():
            _refuse_words(str(target), words[0], script, command)


def unread() -> str | None:
    """What to say where a file is sent to standard input and no target is named; None where none is."""
    try:
        sent = stat.S_ISREG(os.fstat(0).st_mode)
    except OSError:  # closed
        return None
    return "standard input is not read: a launch file is named, rldoctor check run.sh" if sent else None


def _refuse_file(target: Path) -> None:
    command = f"rldoctor triage {shlex.quote(str(target))}"
    if str(target).endswith(LOGS):
        raise InputError(f"{target}: a log by its name, and no launch file: {command}")
    if target.suffix == ".txt" and _TRACEBACK.search(untrusted.beginning(target)):
        raise InputError(f"{target}: a log with a traceback, and no launch file: {command}")
    held = _object(target) if target.suffix == ".json" else {}
    if {"schema_version", "findings"} <= held.keys():
        raise InputError(f"{target}: a report of rldoctor, and no launch file")
    if {"schema_version", "packages"} <= held.keys():
        raise InputError(f"{target}: a bundle, and no launch file: rldoctor check --from {target}")
    if "packages" in held and "gpus" in held:
        raise InputError(f"{target}: the description of a machine, and no launch file: --assume {target}")
    if isinstance(held.get("architectures"), list):
        raise InputError(f"{target}: a model's configuration, and no launch file: rldoctor check {target.parent}")


def _refuse_words(target: str, first: str, script: str | None, command: str) -> None:
    scheme, address, rest = target.partition(":/")
    if address and scheme.isalnum():  # pathlib has made one slash of two
        raise InputError(f"{scheme}://{rest.lstrip('/')}: an address; download the file and hand that over")
    if script is not None and not Path(first).suffix:
        raise InputError(f"{first}: no such file; hand over the script alone: rldoctor {command} {script}")
    if " -" in target:
        raise InputError(f"{target}: a command, not a file; save it as a script and hand that over")


def _object(file: Path) -> dict[str, Any]:
    """The JSON object that a file holds; empty for anything else."""
    try:
        held = json.loads(untrusted.read(file, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}
