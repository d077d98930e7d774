"""A command of the command line, run in this process: what it says, and its exit code."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from pathlib import Path

import pytest

from rldoctor import cli


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command and what it says, in this process; where the process itself is what is tested, there is one."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        if cwd is not None:
            stack.callback(os.chdir, Path.cwd())
            os.chdir(cwd)
        left = stack.enter_context(pytest.raises(SystemExit))
        cli.main([str(argument) for argument in arguments])
    return subprocess.CompletedProcess(arguments, int(left.value.code or 0), out.getvalue(), err.getvalue())
