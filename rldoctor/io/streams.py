"""Where results and progress go: standard output, a file, standard error, and what may be wrong with each of them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from rldoctor import redact
from rldoctor.errors import InputError
from rldoctor.io import atomic, opened
from rldoctor.printable import printable

TAKES_ITS_PLACE = "--output {} is a file that is read here: name another, nothing was written"
# What a runner of GitHub obeys where a job prints it: ``::set-output`` at the beginning of a line, ``##[command]``
# wherever it stands (actions/runner, ActionCommand.cs).
_COMMAND = re.compile(r"^([ \t]*):(?=:)|(#)#(?=\[)", re.MULTILINE)


def prepare() -> None:
    """Makes the standard streams take every text, and be there: the next file opened in place of a closed one (a
    child's pipe) would get its output."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            while os.open(os.devnull, os.O_RDWR) < number:
                pass
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a test may have put something else in its place
            stream.reconfigure(errors="backslashreplace")


def deliver(text: str, output: Path | None = None, *, foreign: bool = False, commands: bool = False) -> None:
    """Writes a result to a file or to standard output. ``foreign`` is one that holds what others wrote byte for byte: a
    terminal gets escapes for what it would obey. ``commands`` is one that a runner of GitHub is to obey; no other
    result makes it do anything. Raises :class:`InputError` where it cannot be written, or would take the place of
    what was read for it."""
    if output is not None and opened.was_read(output):
        raise InputError(TAKES_ITS_PLACE.format(output))
    text = text if not text or text.endswith("\n") else text + "\n"
    try:
        if output is not None:
            atomic.write(output, text.encode("utf-8", "backslashreplace"))
            return
        text = printable(text) if foreign and sys.stdout.isatty() else text
        sys.stdout.write(text if commands else _inert(text))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output left (`| head`), which changes nothing about the verdict; keep the interpreter from
        # complaining about it at exit.
        discard(sys.stdout)
    except OSError as error:
        if output is None:
            discard(sys.stdout)
        raise InputError(f"{output or 'standard output'}: {error.strerror}") from error


@contextlib.contextmanager
def reserved() -> Iterator[None]:
    """Standard output is the report's: what is written to it meanwhile, whatever the way, goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        own = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            if sys.__stdout__ is not None:
                sys.__stdout__.flush()
            os.dup2(own, 1)
            os.close(own)


def progress(line: str) -> None:
    """Tells a person what is going on, where anybody can be told."""
    with _TURN:
        _tell(_inert(f"rldoctor: {printable(redact.text(line))}") + "\n")


@contextlib.contextmanager
def ticking(clock: Callable[[], str]) -> Iterator[None]:
    """On a terminal, below all other lines, what ``clock`` says, anew each second: a person sees that something goes
    on. Elsewhere nothing."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()

    def tick() -> None:
        while not over.wait(SECOND):
            with _TURN:
                _tell(f"rldoctor: {clock()}", stays=False)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        with _TURN:
            _tell("")


SECOND = 1.0
_CLEARED = "\r\x1b[K"
_TURN = threading.Lock()
_ticks = threading.Event()
"""Set while the last line is one that the next one takes away."""


def _tell(text: str, *, stays: bool = True) -> None:
    cleared = _CLEARED if _ticks.is_set() else ""
    (_ticks.clear if stays else _ticks.set)()
    try:
        sys.stderr.write(cleared + text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def _inert(text: str) -> str:
    """The text with escapes where a runner of GitHub would do something, which JSON reads back as they were; the text
    as it is where there is no runner."""
    if "GITHUB_ACTIONS" not in os.environ:
        return text
    return _COMMAND.sub(lambda found: f"{found[1]}\\x3a" if found[2] is None else "#\\u0023", text)


def discard(stream: TextIO) -> None:
    """Sends what is left in a stream's buffer, and all that comes, to nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
