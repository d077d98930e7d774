"""The program that stands between rldoctor and a probe's child: it adopts every process below it and ends them all.

It runs under rldoctor's own interpreter with nothing but the standard library. Being a child subreaper, it inherits
processes that forked twice or called ``setsid``, so that "no process left" is a question with a certain answer, and it
does its work also when rldoctor itself was killed: then its lifeline, a pipe that rldoctor holds open, ends.

Shared memory outlives processes that are killed, and an engine of several ranks has a gigabyte of it. A file of
``/dev/shm`` is removed where it is certainly the child's own: it was not there before the child began, a process below
this one was seen to write to it, and none that lives on uses it.

Called as ``supervisor.py LIFELINE STATUS RESULTS WORK OWNER PROGRAM ARGUMENT...``: three file descriptors, the
directory that is to be removed afterwards, rldoctor's process, and the child's command. Where rldoctor was killed,
nobody is left to whom the folder above, with the child's log, would be of use: it goes, too, with those of the
jobs that were done before."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("children")))  # an isolated interpreter leaves out a script's folder

import shared_memory

# How long the child's own helpers get to leave once it has ended: multiprocessing's resource tracker removes its shared
# memory then, an engine's processes notice that their parent is gone.
GRACE = 1.0
KILL_PATIENCE = 8.0
# How often to see whether there is new shared memory, how often then to look for it in the child's processes, and how
# long such a look may take.
LOOK_EVERY = 0.5
LOOKS = 3
LOOK_PATIENCE = 2.0
BESIDE = "beside"
MOST_BESIDE = 100
PREFIX = "rldoctor-"
OWNER = "owner"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    lifeline, status, results = (int(argument) for argument in sys.argv[1:4])
    work, owner, command = Path(sys.argv[4]), int(sys.argv[5]), sys.argv[6:]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # Nobody reads a probe's core dump, and one of an engine takes gigabytes and minutes to write.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # Asked to leave, once or many times, it ends what it started first.
    asked = threading.Event()
    for wish in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(wish, lambda *_: asked.set())
    killed_before = _out_of_memory_kills()
    shared = _Shared()
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=(results,),
            start_new_session=True,
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    except (OSError, ValueError) as error:
        _remove(work, owner)
        _tell(status, {"not_started": f"{type(error).__name__}: {error}"})
        return
    os.close(results)
    exit_code: int | None = None
    try:
        exit_code = _wait(child.pid, lifeline, asked, shared)
    finally:
        shared.look(_descendants())
        if exit_code is None:
            _kill(child.pid)
            exit_code = _reap_until(child.pid, time.monotonic() + KILL_PATIENCE)
        left = _end_all(shared)
        shared.remove()
        _remove(work, owner)
        killed = _out_of_memory_kills() - killed_before
        _tell(status, {"exit_code": exit_code, "left_running": left, "out_of_memory_kills": killed})


def _remove(work: Path, owner: int) -> None:
    """Removes the child's folder, and those that it made beside ours (``folder_beside`` of children/report.py)."""
    named: list[str] = []
    with contextlib.suppress(OSError):
        named = (work / BESIDE).read_text(errors="replace").splitlines()[:MOST_BESIDE]
    for name in named:
        if name.startswith(PREFIX) and "/" not in name:
            shutil.rmtree(work.parent.with_name(name), ignore_errors=True)
    if os.getppid() == owner:
        shutil.rmtree(work, ignore_errors=True)
        return
    for folder in _same_owner(work.parent):
        shutil.rmtree(folder, ignore_errors=True)


def _same_owner(folder: Path) -> list[Path]:
    """This folder and the others of the process that made it (``kept.py``); one kept for a person names no owner."""
    made_by = _owner_of(folder)
    beside = folder.parent.glob(f"{PREFIX}*") if made_by else ()
    return [folder, *(other for other in beside if other != folder and _owner_of(other) == made_by)]


def _owner_of(folder: Path) -> bytes | None:
    """What a folder of this user says of its owner. Others may put a pipe or a link there."""
    with contextlib.suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return None
        opened = os.open(folder / OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return os.read(opened, 1 << 10) if stat.S_ISREG(os.fstat(opened).st_mode) else None
        finally:
            os.close(opened)
    return None


def _wait(child: int, lifeline: int, asked: threading.Event, shared: _Shared) -> int | None:
    """The child's exit code, or None when the lifeline ended first or this process was asked to leave."""
    alarm, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while not asked.is_set():
        code = _reap(child)
        if code is not None:
            return code
        ready, _, _ = select.select([alarm, lifeline], [], [], LOOK_EVERY)
        if lifeline in ready:
            return None
        if alarm in ready:
            os.read(alarm, 4096)
        elif shared.something_new():
            shared.look(_descendants())
    return None


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


def _end_all(shared: _Shared) -> int:
    """Ends every process below this one; how many had to be killed."""
    killed: set[int] = set()
    started = time.monotonic()
    while (waited := time.monotonic() - started) < GRACE + KILL_PATIENCE:
        _reap(0)
        below = _descendants()
        if not below:
            break
        if waited > GRACE:
            fresh = below - killed
            shared.look(fresh)
            # They wait for all the others to end and then remove what these left, for which they get a grace, too.
            spared = (_in_time(_trackers, fresh) or set()) if waited < 2 * GRACE else set()
            killed |= below - spared
            for pid in below - spared:
                _kill(pid)
        time.sleep(0.01)
    # Whom nobody else waits for would stay a zombie where the first process of a container collects none.
    _reap(0)
    return len(killed)


def _descendants() -> set[int]:
    """All living processes below this one, however deep."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
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


class _Shared:
    """The shared memory that came after the child, and what of it processes below this one were seen to write to."""

    def __init__(self) -> None:
        self._looked = dict.fromkeys(shared_memory.files(), LOOKS)
        self._before = frozenset(self._looked)
        self._own: set[int] = set()

    def something_new(self) -> bool:
        """Whether there are files of which it may still come out that they are the child's."""
        new = [inode for inode in shared_memory.files() if self._looked.get(inode, 0) < LOOKS]
        for inode in new:
            self._looked[inode] = self._looked.get(inode, 0) + 1
        return bool(new)

    def look(self, pids: set[int]) -> None:
        """Takes note of what processes write to."""
        self._own |= (_in_time(shared_memory.written, pids) or set()) - self._before

    def remove(self) -> None:
        """Removes what is left, once the processes have ended."""
        left = {inode: path for inode, path in shared_memory.files().items() if inode in self._own}
        if not left:
            return
        # Somebody else's process may have come to use it meanwhile.
        held = _in_time(
            shared_memory.held, {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
        )
        for inode, path in left.items():
            if held is not None and inode not in held:
                with contextlib.suppress(OSError):
                    path.unlink()


def _in_time(look: Callable[[set[int]], set[int]], pids: set[int]) -> set[int] | None:
    """What a look into processes shows; None where the kernel does not tell, as of one that is stuck in a driver."""
    seen: list[set[int]] = []
    looking = threading.Thread(target=lambda: seen.append(look(pids)), daemon=True)
    looking.start()
    looking.join(LOOK_PATIENCE)
    return seen[0] if seen else None


def _trackers(pids: set[int]) -> set[int]:
    """Those that are resource trackers of multiprocessing."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
    return found


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
