"""The Python stacks of a process, read from outside by py-spy; the process is neither stopped nor told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldoctor import redact
from rldoctor.logs.model import Frame

PROGRAM = "py-spy"
TIME_LIMIT = 15.0
GET_IT = "pip install py-spy"
# A stack that changes while it is read, which nothing stops here, is read again.
_ATTEMPTS = 3
_MOST_FRAMES = 200
_REFUSED = ("permission denied", "operation not permitted", "os error 1)", "os error 13)", "eperm")
_ALLOW = (
    "in a container start it with --cap-add SYS_PTRACE (Kubernetes: securityContext.capabilities.add), elsewhere run "
    "rldoctor as root or set kernel.yama.ptrace_scope=0"
)


class UnreadableError(Exception):
    """The stacks of a process cannot be had; the message says why and, where that helps, how."""


@dataclass(frozen=True)
class Stack:
    """One thread's frames, innermost last. ``thread`` is the kernel's number of it."""

    thread: int | None
    name: str
    main: bool
    frames: tuple[Frame, ...]


def program() -> str | None:
    """py-spy beside this interpreter or on the path."""
    beside = Path(sys.executable).parent / PROGRAM
    return str(beside) if os.access(beside, os.X_OK) else shutil.which(PROGRAM)


def read(py_spy: str, pid: int) -> tuple[Stack, ...]:
    """The stacks of every Python thread. Raises :class:`UnreadableError`."""
    for attempt in range(_ATTEMPTS):
        try:
            return _read(py_spy, pid)
        except UnreadableError as error:
            if attempt == _ATTEMPTS - 1 or _ALLOW in str(error):
                raise
    raise AssertionError  # the last attempt returns or raises


def _read(py_spy: str, pid: int) -> tuple[Stack, ...]:
    # Without --nonblocking it would stop the process for a moment.
    command = [py_spy, "dump", "--json", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIME_LIMIT, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError(f"py-spy did not answer within {TIME_LIMIT:g} s") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"py-spy cannot be run: {error}") from None
    if done.returncode != 0:
        raise UnreadableError(_reason(done.stderr))
    try:
        threads = json.loads(done.stdout)
        return tuple(_stack(thread, pid) for thread in threads)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"py-spy answered something else than stacks ({type(error).__name__})") from None


def _reason(said: str) -> str:
    if any(word in said.lower() for word in _REFUSED):
        return f"this process may not be read (ptrace is refused); {_ALLOW}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"py-spy: {redact.text(lines[0])[:200]}" if lines else "py-spy failed without a word"


def _stack(thread: dict[str, Any], pid: int) -> Stack:
    reported = thread["frames"][:_MOST_FRAMES]
    frames = [Frame(str(f["filename"]), int(f["line"]) or None, str(f["name"])) for f in reported]
    name = str(thread.get("thread_name") or "")
    number = thread.get("os_thread_id")
    return Stack(number, name, number == pid or name == "MainThread", tuple(reversed(frames)))
