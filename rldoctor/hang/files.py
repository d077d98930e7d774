"""Lines out of files that a stalled run has open: the source behind its frames, and the end of its output."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from rldoctor import redact
from rldoctor.facts import proc
from rldoctor.facts.blocked import Kernel
from rldoctor.facts.deadline import within
from rldoctor.hang import pace
from rldoctor.hang.model import LogTail
from rldoctor.logs.model import Frame
from rldoctor.printable import plain

# What a run stands on may be a file system that does not answer.
TIME_LIMIT = 5.0
LINES = 200
# Programs that hand on what they read, those of them that also write it to files, and how many may stand in a row.
_RELAYS = re.compile(
    r"(?:tee|rotatelogs|ts|cat|sed|grep|[gm]?awk|srun|mpirun|mpiexec\S*|orterun|prterun|hydra_pmi_\w*)$"
)
_COPIES = ("tee", "rotatelogs")
_MOST_RELAYS = 4
_TAIL = 128 * 1024
_WIDEST = 500
_LARGEST_SOURCE = 4 << 20


class Sources:
    """The source lines of one process's frames, each file read once; none once a file system did not answer."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._files: dict[str, list[str]] = {}
        self._dead = False

    def filled(self, frames: Iterable[Frame]) -> tuple[Frame, ...]:
        """The frames with the text of their lines, absolute paths and nothing secret."""
        return tuple(self._filled(frame) for frame in frames)

    def _filled(self, frame: Frame) -> Frame:
        file = frame.file
        if not file.startswith(("/", "<")) and (directory := proc.directory(self._pid)):
            file = str(Path(directory) / file)
        lines = self._lines(file)
        known = frame.line is not None and 0 < frame.line <= len(lines)
        code = lines[(frame.line or 1) - 1].strip()[:_WIDEST] if known else ""
        return replace(frame, file=file, code=redact.text(plain(code)))

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            self._files[file] = [] if self._dead or file.startswith("<") else self._read(file)
        return self._files[file]

    def _read(self, file: str) -> list[str]:
        def read() -> list[str]:
            path = proc.within(self._pid, file)
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_SOURCE:
                return []
            return path.read_text(encoding="utf-8", errors="replace").splitlines()

        try:
            return within(TIME_LIMIT, read)
        except TimeoutError:
            self._dead = True
        except (OSError, ValueError):
            pass
        return []


def log_of(pid: int, age: float | None, kernel: Kernel) -> LogTail | None:
    """The end of the file that the process's output goes to, itself or through programs that hand it on; None where it
    goes to a terminal or to another program. ``age`` is the process's, in seconds."""
    for writer, number, target in _outputs(pid, kernel):
        try:
            tail = within(TIME_LIMIT, partial(_tail, writer, number, target, age))
        except (TimeoutError, OSError):
            continue
        if tail is not None:
            return tail
    return None


def _outputs(pid: int, kernel: Kernel) -> Iterator[tuple[int, int, str]]:
    """The files that a process's output goes to, with who writes them and by which descriptor."""
    at, copies = pid, False
    for _ in range(_MOST_RELAYS):
        opened = proc.open_files(at)
        for number in (2, 1, *sorted(opened.keys() - {0, 1, 2} if copies else ())):
            if (target := opened.get(number, "")).startswith("/") and not target.startswith(("/dev/", "/proc/")):
                yield at, number, target
        pipes = (opened[number] for number in (2, 1) if opened.get(number, "").startswith("pipe:"))
        reader = next((one for pipe in pipes if (one := kernel.reader(pipe)) is not None), None)
        if reader is None or not _RELAYS.match(reader.name):
            return
        at, copies = reader.pid, reader.name in _COPIES


def _tail(pid: int, number: int, target: str, age: float | None) -> LogTail | None:
    # Through the descriptor it is found also where the file was moved or lies in a container.
    file = proc.PROC / str(pid) / "fd" / str(number)
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        return None
    with file.open("rb") as opened:
        opened.seek(max(0, status.st_size - _TAIL))
        read = opened.read(_TAIL)
    text = read.decode("utf-8", "replace")
    lines = [line.rpartition("\r")[2][:_WIDEST] for line in text.split("\n")]
    kept = redact.lines(plain(line) for line in lines if line.strip())[-LINES:]
    quiet = round(max(0.0, time.time() - status.st_mtime), 1)
    # What another run wrote before it into the same file was not written in the time of this process.
    own = age is not None and (not proc.appends(pid, number) or str(pid) in Path(target).name)
    lasted = age - quiet if age is not None and own and age > quiet else None
    limit = pace.limit(text.splitlines(), len(read) / status.st_size if status.st_size else 0.0, lasted)
    return LogTail(file=plain(target), quiet=quiet, lines=tuple(kept), limit=limit and round(limit, 1))


def private_folder(path: Path) -> None:
    """Makes a folder that only its owner can read. Raises :class:`OSError`."""
    path.mkdir(parents=True)
    path.chmod(stat.S_IRWXU)
