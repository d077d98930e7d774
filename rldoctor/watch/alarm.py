"""``--exec``: a command of the user's that is run for every new finding."""

from __future__ import annotations

import os
import signal
import subprocess

import msgspec

from rldoctor import redact
from rldoctor.model import Finding
from rldoctor.streams import progress

TIME_LIMIT = 60.0


def sound(command: str, finding: Finding) -> None:
    """Runs the command in a shell of its own, the finding as JSON on its standard input and in RLDOCTOR_CODE,
    RLDOCTOR_SEVERITY and RLDOCTOR_MESSAGE; text from a log never becomes a part of the command."""
    reported = redact.tree(finding)
    variables = {
        "RLDOCTOR_CODE": reported.code,
        "RLDOCTOR_SEVERITY": reported.severity.value,
        "RLDOCTOR_MESSAGE": " ".join(reported.message.replace("\0", " ").split()),
    }
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    try:
        process.communicate(msgspec.json.encode(reported), timeout=TIME_LIMIT)
    except BaseException as reason:  # Ctrl-C among them
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(reason, subprocess.TimeoutExpired):
            raise
        progress(f"--exec was ended after {TIME_LIMIT:.0f} s: {command}")
        return
    if process.returncode != 0:
        progress(f"--exec ended with status {process.returncode}: {command}")
