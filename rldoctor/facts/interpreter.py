"""Which interpreter is examined, and what it says of itself: version, prefix, search path, headers."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rldoctor.catalogue.probe import Request
from rldoctor.errors import InputError
from rldoctor.facts.environment import of
from rldoctor.records import dataclass
from rldoctor.redact import without_secrets

TIME_LIMIT = 20.0
OLDEST = (3, 8)

# Runs in the target, which may be any Python: the syntax is what 2.7 reads too. `-c` puts the current directory first
# on the path; it goes before anything is imported, lest a file there named json.py be taken for the standard library.
_CHILD = """
import sys
if sys.path and sys.path[0] == "":
    del sys.path[0]
import json, os, sysconfig
include = sysconfig.get_path("include") or ""
answer = {
    "version": list(sys.version_info),
    "executable": sys.executable,
    "prefix": sys.prefix,
    "path": [os.path.abspath(p) for p in sys.path],
    "include": include if os.path.exists(os.path.join(include, "Python.h")) else None,
}
os.write(int(sys.argv[1]), (json.dumps(answer) + "\\n").encode())
"""
_LARGEST_ANSWER = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python as it starts in this environment. ``path`` is ``sys.path`` without the current directory; ``include`` is
    where ``Python.h`` is, None where it is not."""

    version: str
    executable: str
    prefix: str
    path: tuple[str, ...]
    include: str | None


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What ``_CHILD`` says, which may be some other program's."""

    version: tuple[int, int, int, str, int]
    executable: str | None
    prefix: str
    path: tuple[str, ...]
    include: str | None


def examine(request: Request, time_limit: float = TIME_LIMIT) -> Interpreter:
    """The interpreter that the request names, or the one that runs this.

    Raises :class:`InputError` where it does not exist, cannot be run, is no Python, is too old or does not answer."""
    if request.python is None:
        return this_one()
    return ask(resolve(request.python), of(request), time_limit)


def this_one() -> Interpreter:
    """The running interpreter. The first entry of its path, the script's or the current directory, is dropped."""
    import sysconfig

    safe_path = getattr(sys.flags, "safe_path", False)  # new in Python 3.11
    include = sysconfig.get_path("include")
    return Interpreter(
        version=_version(tuple(sys.version_info)),
        executable=sys.executable,
        prefix=sys.prefix,
        path=tuple(sys.path if safe_path else sys.path[1:]),
        include=include if Path(include, "Python.h").exists() else None,
    )


def resolve(python: Path) -> Path:
    """The file behind what the user gave: a path, a command on PATH, or the directory of a virtual environment."""
    try:
        named = shutil.which(python) if python.name == str(python) and not python.exists() else None
        # Absolute, but with its links: a virtual environment's interpreter knows itself by the name it is started with.
        path = Path(named or python).absolute()
        if path.is_dir():
            path = path / "bin" / "python"
            if not path.exists():
                raise InputError(f"--python {python}: a directory without bin/python")
        if path.is_symlink() and not path.exists():
            raise InputError(f"--python {python}: is a link to {path.readlink()}, which does not exist")
        if not path.exists():
            raise InputError(f"--python {python}: does not exist")
    except (OSError, ValueError) as error:
        raise InputError(f"--python {python}: {getattr(error, 'strerror', error)}") from None
    if not os.access(path, os.X_OK):
        raise InputError(f"--python {python}: is not executable")
    return path


def ask(python: Path, environ: Mapping[str, str], time_limit: float = TIME_LIMIT) -> Interpreter:
    """Starts ``python`` with nothing but the standard library and reads what it says of itself."""
    raw, noise, ended = _run(python, environ, time_limit)
    try:
        said = msgspec.convert(json.loads(raw), _Answer)
    except (ValueError, RecursionError):
        if _is_whole(raw):
            raise InputError(f"--python {python}: is not a working Python: it answers something else") from None
        last = next((f": {line}" for line in reversed(noise.splitlines()) if line.strip()), "")
        if ended is None:
            raise InputError(f"--python {python}: did not answer within {time_limit:g} s{last}") from None
        raise InputError(f"--python {python}: is not a working Python (exit status {ended}){last}") from None
    if said.version < OLDEST:
        raise InputError(
            f"--python {python}: is Python {_version(said.version)}; 3.8 is the oldest that can be examined"
        )
    return Interpreter(
        version=_version(said.version),
        executable=said.executable or str(python),
        prefix=said.prefix,
        path=said.path,
        include=said.include,
    )


def _run(python: Path, environ: Mapping[str, str], time_limit: float) -> tuple[bytes, str, int | None]:
    """The answer, what was said on standard error, and the exit status (None where the time limit ended it).

    The answer comes through a pipe of its own: start-up hooks (`.pth`, sitecustomize) may print what they like."""
    answer, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            [str(python), "-B", "-c", _CHILD, str(theirs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=without_secrets(environ),
            pass_fds=(theirs,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(answer)
        raise InputError(f"--python {python}: cannot be run: {error.strerror}") from None
    finally:
        os.close(theirs)
    assert process.stderr is not None
    deadline = time.monotonic() + time_limit
    try:
        raw, noise = _read(answer, process.stderr.fileno(), deadline)
        if not _is_whole(raw):
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return raw, noise, None
        return raw, noise, process.returncode
    finally:
        _end(process)
        os.close(answer)
        process.stderr.close()


def _read(answer: int, noise: int, deadline: float) -> tuple[bytes, str]:
    """Reads both pipes until the answer's line is complete, its pipe is closed or the deadline is over."""
    read = {answer: b"", noise: b""}
    with selectors.DefaultSelector() as selector:
        selector.register(answer, selectors.EVENT_READ)
        selector.register(noise, selectors.EVENT_READ)
        while not _is_whole(read[answer]):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                read[key.fd] = (read[key.fd] + chunk)[-_LARGEST_ANSWER:]
                if not chunk:
                    selector.unregister(key.fd)
            if answer not in selector.get_map():
                break
    return read[answer], read[noise].decode(errors="replace")


def _is_whole(answer: bytes) -> bool:
    """Whether no more of an answer is waited for: its line has ended, or it is longer than any answer."""
    return answer.endswith(b"\n") or len(answer) >= _LARGEST_ANSWER


def _end(process: subprocess.Popen[bytes]) -> None:
    # The group outlives its leader where a start-up hook left something running.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _version(info: tuple[object, ...]) -> str:
    """``sys.version_info`` as PEP 440 spells it: 3.13.0rc1."""
    release = ".".join(map(str, info[:3]))
    letter = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(str(info[3]))
    return f"{release}{letter}{info[4]}" if letter else release
