"""The program that stands between rldoctor and a probe's child: it adopts every process below it and ends them all.

It runs under rldoctor's own interpreter with nothing but the standard library. Being a child subreaper, it inherits
processes that forked twice or called ``setsid``, so that "no process left" is a question with a certain answer, and it
does its work also when rldoctor itself was killed: then its lifeline, a pipe that rldoctor holds open, ends.

Called as ``supervisor.py LIFELINE STATUS RESULTS WORK PROGRAM ARGUMENT...``: three file descriptors, the directory
that is to be removed afterwards, and the child's command."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# How long the child's own helpers get to leave once it has ended: multiprocessing's resource tracker removes its shared
# memory then, an engine's processes notice that their parent is gone.
GRACE = 1.0
KILL_PATIENCE = 8.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    lifeline, status, results = (int(argument) for argument in sys.argv[1:4])
    work, command = sys.argv[4], sys.argv[5:]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # Nobody reads a probe's core dump, and one of an engine takes gigabytes and minutes to write.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for wish in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(wish, lambda *_: sys.exit(1))
    killed_before = _out_of_memory_kills()
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=(results,),
            start_new_session=True,
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    except (OSError, ValueError) as error:
        shutil.rmtree(work, ignore_errors=True)
        _tell(status, {"not_started": f"{type(error).__name__}: {error}"})
        return
    os.close(results)
    exit_code: int | None = None
    try:
        exit_code = _wait(child.pid, lifeline)
    finally:
        if exit_code is None:
            _kill(child.pid)
            exit_code = _reap_until(child.pid, time.monotonic() + KILL_PATIENCE)
        left = _end_all()
        shutil.rmtree(work, ignore_errors=True)
        killed = _out_of_memory_kills() - killed_before
        _tell(status, {"exit_code": exit_code, "left_running": left, "out_of_memory_kills": killed})


def _wait(child: int, lifeline: int) -> int | None:
    """The child's exit code, or None when the lifeline ended first."""
    alarm, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        code = _reap(child)
        if code is not None:
            return code
        ready, _, _ = select.select([alarm, lifeline], [], [])
        if lifeline in ready:
            return None
        os.read(alarm, 4096)


def _reap(child: int) -> int | None:
    """Collects whoever has ended; the child's exit code where it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def _reap_until(child: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        code = _reap(child)
        if code is not None:
            return code
        time.sleep(0.005)
    return None


def _end_all() -> int:
    """Ends every process below this one; how many had to be killed."""
    killed: set[int] = set()
    started = time.monotonic()
    while time.monotonic() < started + GRACE + KILL_PATIENCE:
        _reap(0)
        below = _descendants()
        if not below:
            break
        if time.monotonic() > started + GRACE:
            killed.update(below)
            for pid in below:
                _kill(pid)
        time.sleep(0.01)
    return len(killed)


def _descendants() -> set[int]:
    """All living processes below this one, however deep."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # "pid (name) state parent ...", where the name may hold spaces and parentheses.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _out_of_memory_kills() -> int:
    """How many processes this kernel has killed for want of memory since it started (0 where it does not tell)."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # no Linux, no adoption: the parents of each process still tell
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _tell(status: int, what: dict[str, object]) -> None:
    os.write(status, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main()
