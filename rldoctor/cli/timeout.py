"""The time limit of a whole command: what is under way ends as with Ctrl-C, its children too."""

from __future__ import annotations

import os
import signal
import threading
from typing import Annotated

import typer

from rldoctor.cli.exits import ExitCode
from rldoctor.errors import InputError
from rldoctor.io.streams import progress

LONGEST = 7 * 86_400
# What is under way may end its children in so many seconds; a call that hangs in the kernel never would.
GRACE = 30.0


class OutOfTimeError(BaseException):
    """Unwinds the stack once the time is over; nothing that a plugin catches stops it."""


class _Clock:
    """What runs out beside the command."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        if self.ended.wait(self.seconds):
            return
        self.is_over = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        if not self.ended.wait(GRACE):
            progress(f"nothing was judged: the {self.seconds:g} s of --timeout are over, and something does not end")
            os._exit(ExitCode.CANNOT_JUDGE)


_clock: _Clock | None = None


def stop() -> None:
    """Stops the clock: the command has ended."""
    global _clock
    if _clock is not None:
        _clock.ended.set()
        _clock.thread.join()
    _clock = None


def end_if_over() -> None:
    """Raises :class:`OutOfTimeError` where it is the limit that ends the command."""
    if _clock is not None and _clock.is_over:
        raise OutOfTimeError(f"{_clock.seconds:g} s")


def _start(seconds: float | None) -> None:
    global _clock
    if seconds is None:
        return
    if not 0 < seconds <= LONGEST:
        raise InputError(f"--timeout {seconds:g}: more than 0 and at most {LONGEST} seconds are expected")
    _clock = _Clock(seconds)


# The callback takes it; no command has a use for it.
Timeout = Annotated[
    float | None,
    typer.Option(
        callback=_start, expose_value=False, help="Seconds for the whole command: exit status 2 when they are over."
    ),
]
