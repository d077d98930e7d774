"""The dumps of torch's flight recorder: where each rank writes its own, and what stands in one.

``torch/csrc/distributed/c10d/FlightRecorder.cpp`` and ``ProcessGroupNCCL.cpp``:
https://github.com/pytorch/pytorch/tree/main/torch/csrc/distributed/c10d"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from rldoctor import redact
from rldoctor.hang.model import Collective, FlightRecord
from rldoctor.logs.model import Frame
from rldoctor.printable import plain

LARGEST = 128 << 20
MOST = 1024
# Of each group the newest: what a rank waits in is among its last.
NEWEST = 20
_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
# torch 2.2 to 2.7 wrote to /tmp; later releases to the user's cache.
_OLDER = "/tmp/nccl_trace_rank_"
_NEWER = "torch/comm_lib_trace_rank_"


class _Containers(pickle.Unpickler):
    """Reads a pickle of containers, texts and numbers, and of nothing else: a class or function is never looked up."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no flight recorder does")

    def persistent_load(self, identifier: object) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside itself")


def is_on(environ: Mapping[str, str]) -> bool:
    """Whether a process with these variables records its collectives."""
    return any(environ.get(name, "").strip().strip("0").isdecimal() for name in _SIZES)


def prefixes(environ: Mapping[str, str]) -> list[str]:
    """What the names of the dumps begin with; each rank adds its number."""
    named = next((environ[name] for name in _FILES if environ.get(name)), None)
    if named is not None:
        return [named]
    cache = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '/tmp')}/.cache"
    return [f"{cache}/{_NEWER}", _OLDER]


def dumps(prefix: str, since: float) -> list[FlightRecord]:
    """What ranks have dumped under a prefix since a time (seconds since 1970)."""
    place, name = Path(prefix).parent, Path(prefix).name if not prefix.endswith("/") else ""
    place = Path(prefix) if not name else place
    try:
        entries = [entry for entry in place.iterdir() if entry.name.startswith(name)]
    except OSError:
        return []
    numbered = {entry.name[len(name) :]: entry for entry in entries if entry.name[len(name) :].isdecimal()}
    found = (read(numbered[rank], rank, since) for rank in sorted(numbered, key=int)[:MOST])
    return [record for record in found if record is not None]


def trigger(environ: Mapping[str, str], rank: str) -> bool:
    """Asks a rank for a dump through the pipe that its user set up for that; whether it listens."""
    if not environ.get(_PIPE):
        return False
    pipe = Path(f"{environ[_PIPE]}{rank}.pipe")
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(pipe.stat().st_mode):
            opened = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                return os.write(opened, b"1") == 1
            finally:
                os.close(opened)
    return False


def read(file: Path, rank: str | None, since: float = 0.0) -> FlightRecord | None:
    """What a dump holds; None where there is no such file, or one from before ``since`` (seconds since 1970)."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mtime < since:
            return None
        if status.st_size > LARGEST:
            return _broken(file, rank, status.st_mtime, f"larger than {LARGEST >> 20} MiB")
        raw = file.read_bytes()
    except OSError:
        return None
    return parse(raw, file, rank, status.st_mtime)


def parse(raw: bytes, file: Path, rank: str | None, written: float) -> FlightRecord:
    """A dump's bytes as a record; one that is damaged, or no dump, says so."""
    try:
        data = _Containers(io.BytesIO(raw)).load()
    except Exception as error:  # a damaged pickle may fail in nearly any way
        return _broken(file, rank, written, f"no flight recorder's dump: {type(error).__name__}: {str(error)[:200]}")
    if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
        return _broken(file, rank, written, "no flight recorder's dump: it has no entries")
    newest: dict[str, list[Collective]] = {}
    for entry in data["entries"]:
        if isinstance(entry, dict) and not entry.get("is_p2p"):
            one = _collective(entry)
            newest.setdefault(one.group, []).append(one)
    return FlightRecord(
        file=plain(str(file)),
        written=round(max(0.0, time.time() - written), 1),
        rank=rank,
        version=_text(data.get("version")) or None,
        groups=dict(_groups(data.get("pg_config"))),
        last=tuple(one for group in newest.values() for one in sorted(group, key=lambda c: c.number)[-NEWEST:]),
    )


def _broken(file: Path, rank: str | None, written: float, problem: str) -> FlightRecord:
    ago = round(max(0.0, time.time() - written), 1)
    return FlightRecord(file=plain(str(file)), written=ago, rank=rank, problem=plain(problem))


def _collective(entry: dict[Any, Any]) -> Collective:
    group = entry.get("process_group")
    name = [_text(part) for part in group[:2]] if isinstance(group, tuple | list) else []
    created = entry.get("time_created_ns")
    return Collective(
        group=next(filter(None, name), "0"),
        number=_number(entry.get("collective_seq_id", entry.get("seq_id"))),
        # "nccl:all_reduce"
        operation=_text(entry.get("profiling_name")).rpartition(":")[2] or "?",
        # The state of gloo's stays as it was; what is over is retired.
        state="completed" if entry.get("retired") is True else _text(entry.get("state")) or "?",
        sizes=_sizes(entry.get("input_sizes")),
        created=created / 1e9 if isinstance(created, int) else None,
        frame=_frame(entry.get("frames")),
    )


def _frame(frames: object) -> Frame | None:
    """The innermost frame outside torch; a recorder lists them innermost first."""
    for one in frames if isinstance(frames, list) else ():
        if isinstance(one, dict) and "/torch/" not in _text(one.get("filename")):
            return Frame(redact.text(_text(one.get("filename"))), _number(one.get("line")), _text(one.get("name")))
    return None


def _groups(config: object) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Group -> ranks; the ranks come as text (``[0, 1]``)."""
    for name, reported in config.items() if isinstance(config, dict) else ():
        ranks = reported.get("ranks") if isinstance(reported, dict) else None
        numbers = ranks.strip("[] ").split(",") if isinstance(ranks, str) else []
        yield _text(name), tuple(int(n) for n in numbers if n.strip().isdecimal() and len(n) < 10)


def _sizes(value: object) -> str:
    """``[[4], [2, 8]]`` as ``4, 2x8``."""
    shapes = [shape for shape in value[:4] if isinstance(shape, list | tuple)] if isinstance(value, list) else []
    return ", ".join("x".join(str(n) for n in shape[:8] if isinstance(n, int)) for shape in shapes)


def _text(value: object) -> str:
    """A text of a dump, bounded; of anything else nothing, since a nest of lists may be endless when written out."""
    return plain(value)[:300] if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and abs(value) < 1 << 62 else -1
