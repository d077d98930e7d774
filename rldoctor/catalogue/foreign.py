"""The import of somebody else's module: bounded in time, and without a say in what the rest of the process shares."""

from __future__ import annotations

import builtins
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

# What does not even end when it is told to is ended with the process, so many seconds later.
STUBBORN = 5.0
# For threads and hooks of theirs that go on when all is said.
LAST_SECONDS = 5.0
_NOT_JUDGED = 2
_present = False


class TookTooLong(BaseException):
    """The import of a plugin did not end; no ``except Exception`` of its own stops this."""


@contextlib.contextmanager
def imported(name: str, seconds: float) -> Iterator[None]:
    """Around the import of a third party's module."""
    global _present
    _present = True
    with _as_before(), _limited(name, seconds):
        yield


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Undoes what a module does to names, paths and limits that all others use, too."""
    shared, names, path = builtins.__dict__, dict(builtins.__dict__), list(sys.path)
    depth, leave = sys.getrecursionlimit(), sys.exit
    folder = _folder()
    try:
        yield
    finally:
        shared.update(names)
        sys.exit = leave
        sys.setrecursionlimit(max(depth, sys.getrecursionlimit()))
        sys.path += [entry for entry in path if entry not in sys.path]
        if folder is not None and _folder() != folder:
            with contextlib.suppress(OSError):
                os.chdir(folder)


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - as os.chdir takes it back
    except OSError:
        return None


@contextlib.contextmanager
def _limited(name: str, seconds: float) -> Iterator[None]:
    """Ends the import after so many seconds, where signals can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: object) -> None:
        raise TookTooLong(f"its import did not end within {seconds:g} s")

    def end_all() -> None:
        if not ended.wait(seconds + STUBBORN):
            os.write(2, f"rldoctor: nothing was judged: the import of the plugin {name} cannot be ended\n".encode())
            os._exit(_NOT_JUDGED)

    ended = threading.Event()
    threading.Thread(target=end_all, daemon=True).start()
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        ended.set()


def present() -> bool:
    """Whether third parties' modules were imported."""
    return _present


def leave(code: int) -> None:
    """The last thing that this process does by itself: what third parties' modules print from now on is not in the
    report, and what of them does not end is left after a while."""

    def end() -> None:
        time.sleep(LAST_SECONDS)
        os._exit(code)

    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        os.dup2(2, 1)
    threading.Thread(target=end, daemon=True).start()
