"""A program that a child starts beside itself, in a session of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def ended(
    command: Sequence[str], given: str, environ: Mapping[str, str], folder: Path, limit: float
) -> tuple[int | None, str]:
    """The exit code of a program that reads ``given`` and has ``limit`` seconds, None where its time was over, and what
    it wrote. Nothing of its session stays."""
    program = subprocess.Popen(
        list(command),
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = program.communicate(given, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    return program.returncode, said
