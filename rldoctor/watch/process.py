"""The log of a process that runs: the file that its output goes to."""

from __future__ import annotations

import stat
from pathlib import Path

from rldoctor.errors import InputError

_STREAMS = ((1, "standard output"), (2, "standard error"))


def output_of(pid: int) -> Path:
    """The file that a process writes its output to; where both of its streams have one, that of standard output.

    Raises :class:`InputError` where it writes to a terminal or a pipe, or may not be looked at."""
    said = []
    for number, name in _STREAMS:
        link = Path(f"/proc/{pid}/fd/{number}")
        try:
            target, mode = link.readlink(), link.stat().st_mode
        except FileNotFoundError:
            if not Path(f"/proc/{pid}").exists():
                raise InputError(f"no process {pid} is running") from None
            said.append(f"{name} is closed")
            continue
        except OSError as error:
            raise InputError(f"the output of process {pid} cannot be looked at: {error.strerror}") from None
        if stat.S_ISREG(mode):
            return target
        said.append(f"{name} goes to {target}")
    raise InputError(f"process {pid}: {', '.join(said)}; name the log that its output is kept in")


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that ended and was not waited for does not."""
    try:
        # The state stands behind the command's name, which may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
