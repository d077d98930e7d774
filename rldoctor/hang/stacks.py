"""The Python stacks of a process, read from outside by py-spy; the process is neither stopped nor told."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Any

from rldoctor import redact
from rldoctor.hang.waits import bare
from rldoctor.logs.model import Frame
from rldoctor.records import dataclass

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

# Variables of a frame that tell a rank's place in the world, by file and function: whom a call from point to point
# names, and which of its ranks torch's spawn started. Of a program's own frames those that are called so.
_PLACES = (
    ("peer", re.compile(r"torch/distributed/distributed_c10d\.py$"), re.compile(r"i?send$|i?recv$"), ("src", "dst")),
    ("rank", re.compile(r"torch/multiprocessing/spawn\.py$"), re.compile(r"_wrap$"), ("i",)),
    ("rank", re.compile(r"^(?!.*/lib(?:64)?/python\d)"), re.compile(""), ("rank", "global_rank", "world_rank")),
)


class UnreadableError(Exception):
    """The stacks of a process cannot be had; the message says why and, where that helps, how."""


@dataclass(frozen=True)
class Stack:
    """One thread's frames, innermost last. ``thread`` is the kernel's number of it, ``places`` the ranks that its
    variables name: its own (``rank``) and the one that it sends to or receives from (``peer``)."""

    thread: int | None
    name: str
    main: bool
    frames: tuple[Frame, ...]
    places: dict[str, int] = field(default_factory=dict)


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
    command = [py_spy, "dump", "--json", "--nonblocking", "--locals", "--pid", str(pid)]
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
    places: dict[str, int] = {}
    for frame, entry in zip(frames, reported, strict=True):
        places = {**_places(frame, entry.get("locals") or ()), **places}
    return Stack(number, name, number == pid or name == "MainThread", tuple(reversed(frames)), places)


def _places(frame: Frame, variables: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Whole numbers alone are kept: what else a frame's variables hold is nobody's business."""
    numbers = {str(one["name"]): one["repr"] for one in variables if str(one.get("repr")).isdecimal()}
    return {
        place: int(numbers[name][:9])
        for place, file, function, names in _PLACES
        if file.search(frame.file) and function.match(bare(frame))
        for name in names
        if name in numbers
    }
