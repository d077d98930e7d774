"""A child's side of the probe protocol: its arguments in, named records and its last word out.

A child is started as ``python -u CHILD DESCRIPTOR ARGUMENTS``: the descriptor takes one JSON object per line, the file
holds ``{"arguments": ..., "time_limit": seconds}``. It ends with ``run(main)`` and calls :func:`emit` as often as it
likes; what it emitted before it died is not lost. Python 3.9 or newer, standard library only."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

MAX_FRAMES = 40
MAX_MESSAGE = 4000
MAX_CHAIN = 10
# So long before the end of its time a child writes where each of its threads stands into its log.
DUMP_BEFORE_END = 3.0
# How often a deadline learns for how long its process waited for a processor: more often towards its end, and not right
# before it, since a thread that runs while stacks are written may crash what writes them.
LOOKS_EVERY = 1.0
LAST_LOOK = 0.2
# By how many times its length a deadline is put off at most: threads that spin keep each other waiting for ever.
MOST_PROLONGED = 10.0

_channel: int | None = None
_started = time.monotonic()
_time_limit = math.inf
# The thread that puts off the deadline under way, and what ends it.
_prolonging: tuple[threading.Thread, threading.Event] | None = None


def run(main: Callable[[dict[str, Any]], None]) -> NoReturn:
    """Calls ``main`` with the child's arguments, reports how it ended, and leaves without the interpreter's teardown,
    which in a process full of threads and native libraries may hang or crash."""
    global _channel, _time_limit
    _channel = int(sys.argv[1])
    os.set_inheritable(_channel, False)
    reported = json.loads(Path(sys.argv[2]).read_text())
    del sys.argv[1:]
    faulthandler.enable()
    _time_limit = reported["time_limit"]
    _dump_before_the_end()
    end: dict[str, Any] = {"end": "done"}
    try:
        main(reported["arguments"])
    except BaseException as error:
        traceback.print_exc()
        links = chain(error)
        emit("exceptions", links)
        frames = [f"{f['file']}:{f['line']} in {f['function']}" for f in links[0]["frames"]]
        end = {"end": "raised", "error": {**links[0], "frames": frames}}
    _write(end)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if end["end"] == "done" else 1)


def emit(name: str, value: object) -> None:
    """Delivers one record; a later one of the same name replaces it."""
    _write({"name": name, "value": _plain(value)})


def folder_beside() -> str:
    """A folder with a shorter path than that of this child's own, as sockets need; it goes when the child ends, as the
    folder of the same owner goes where that is killed."""
    own = Path.cwd().parent
    made = Path(tempfile.mkdtemp(prefix="rldoctor-", dir=own.parent))
    with Path("beside").open("a") as names:
        names.write(f"{made.name}\n")
    shutil.copy(own / "owner", made / "owner")
    return str(made)


def stage(name: str) -> None:
    """Says what the child is about to do; ``records["stage"]`` is then where it ended."""
    emit("stage", name)


def elapsed() -> float:
    """Seconds since this child began."""
    return round(time.monotonic() - _started, 3)


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """What runs inside has so much time, not counting what it waits for a processor that others keep busy; then every
    thread's stack goes into the log and this process ends, even where the interpreter itself is stuck in native
    code."""
    global _prolonging
    _end_in(seconds)
    over = threading.Event()
    _prolonging = threading.Thread(target=_prolong, args=(seconds, over), daemon=True), over
    _prolonging[0].start()
    try:
        yield
    finally:
        lift_deadline()
        _dump_before_the_end()


def lift_deadline() -> None:
    """Ends the deadline that is under way. Before a fork: its threads would not be there, and be waited for."""
    global _prolonging
    if _prolonging is not None:
        thread, over = _prolonging
        over.set()
        thread.join()
        _prolonging = None
    faulthandler.cancel_dump_traceback_later()


def _prolong(seconds: float, over: threading.Event) -> None:
    """Puts the deadline off by what the process waits for a processor, until it is over."""
    began, waited, more = time.monotonic(), waited_for_processors(), 0.0
    left = seconds
    while not over.wait(min(LOOKS_EVERY, left / 2) if left > LAST_LOOK else LOOKS_EVERY):
        # What a thread has waited is forgotten when it ends.
        more = max(more, min(waited_for_processors() - waited, MOST_PROLONGED * seconds))
        left = seconds + more - (time.monotonic() - began)
        if left > 0:  # else it is coming
            _end_in(left)


def _end_in(seconds: float) -> None:
    """Sets the time at which the deadline ends this process. One that lies behind the end of all its time leaves only
    the stacks, before that end: who cuts the whole says himself what was cut."""
    whole = _time_limit - elapsed() - DUMP_BEFORE_END
    if seconds < whole:
        faulthandler.dump_traceback_later(seconds, exit=True)
    elif whole > 0:  # else they are written
        faulthandler.dump_traceback_later(whole)


def waited_for_processors(process: int | str = "self") -> float:
    """The seconds for which the thread of a process that waited longest was ready to run and got no processor; none
    where the kernel does not count them (Documentation/scheduler/sched-stats.rst)."""
    waited = [0]
    for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
            waited.append(int(thread.read_text().split()[1]))
    return max(waited) / 1e9


def _dump_before_the_end() -> None:
    if math.isfinite(_time_limit):  # a child run by hand has no limit
        faulthandler.dump_traceback_later(max(_time_limit - elapsed() - DUMP_BEFORE_END, 0.5))
    else:
        faulthandler.cancel_dump_traceback_later()


def chain(error: BaseException) -> list[dict[str, Any]]:
    """An exception and what led to it, outermost first. ``link`` says how one came to the next: ``cause`` (raised from
    it), ``context`` (raised while it was handled) or ``suppressed`` (the same, hidden by ``from None``)."""
    links: list[dict[str, Any]] = []
    seen: set[int] = set()
    link: str | None = None
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(links) < MAX_CHAIN:
        seen.add(id(current))
        links.append({**describe(current), "link": link})
        if current.__cause__ is not None:
            link, current = "cause", current.__cause__
        else:
            link, current = "suppressed" if current.__suppress_context__ else "context", current.__context__
    return links


def describe(error: BaseException) -> dict[str, Any]:
    """One exception: ``type``, ``message``, the ``name`` and ``path`` of an ImportError, the ``libraries`` that the
    message names, and ``frames``, innermost last; a file comes with the top-level package that it belongs to. Frames
    of the import machinery and of the children are left out."""
    kind = type(error)
    seen = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen importlib")]
    frames = [
        {"file": f.filename, "line": f.lineno, "function": f.name, "package": package_of(f.filename)}
        for f in [f for f in seen if Path(f.filename).parent != _HERE] or seen
    ]
    libraries = dict.fromkeys(_LIBRARY_FILE.findall(_text(error)))
    return {
        "type": kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        "message": _text(error)[:MAX_MESSAGE],
        "name": getattr(error, "name", None) if isinstance(error, ImportError) else None,
        "path": getattr(error, "path", None) if isinstance(error, ImportError) else None,
        "libraries": [{"file": file, "package": package_of(file)} for file in libraries],
        "frames": frames[-MAX_FRAMES:],
    }


def package_of(file: str) -> str | None:
    """The top-level package or module that a file was installed as, ``python`` for the standard library, else None."""
    for place in sorted((p for p in sys.path if p), key=len, reverse=True):
        try:
            parts = Path(file).relative_to(place).parts
        except ValueError:
            continue
        if place in _STANDARD or not parts:
            return "python"
        # The file of a single module carries its suffixes: "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so".
        return parts[0].partition(".")[0] if len(parts) == 1 else parts[0]
    return None


_HERE = Path(__file__).parent
_LIBRARY_FILE = re.compile(r"(/[^\s:'\"()]+\.so[.\d]*)")
_STANDARD = {sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"]} | {
    p for p in sys.path if p.endswith(("lib-dynload", ".zip"))
}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as other:
        return f"(its message cannot be printed: {other!r})"


def _plain(value: object) -> object:
    """What JSON can carry: a number that is none becomes its name (``nan``, ``inf``, ``-inf``), an unknown object its
    text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return str(value)


def _write(line: dict[str, Any]) -> None:
    if _channel is None:  # run by hand: show what would be delivered
        print(json.dumps(line), flush=True)
        return
    data = json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(_channel, data) :]
