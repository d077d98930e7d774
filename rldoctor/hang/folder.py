"""The folder that a stalled run leaves: the record as a bundle, and the same as texts for people."""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from rldoctor import bundle, redact
from rldoctor.case import Case
from rldoctor.errors import InputError
from rldoctor.hang import files
from rldoctor.hang.model import NAME, Hang, Seen, hang_of
from rldoctor.printable import printable, storable

RECORD = "hang.json"
STACKS, LOGS = "stacks", "logs"


def save(case: Case, named: Path | None) -> Path:
    """Writes the folder, without secrets, new and for its owner alone; unnamed it lies in the current folder, or where
    temporary files do. Raises :class:`InputError` where it cannot be written."""
    case = redact.tree(case)
    hang = hang_of(case)
    folder = _made(named, f"rldoctor-hang-{_plain(hang.hosts[0])}-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        (folder / RECORD).write_text(bundle.dump(case) + "\n", encoding="utf-8")
        for name, texts in ((STACKS, _stacks(hang)), (LOGS, _logs(hang))):
            (folder / name).mkdir()
            for file, text in texts.items():
                (folder / name / file).write_text(storable(printable(text)), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from None
    return folder


def load(folders: tuple[Path, ...]) -> Case:
    """The record of one folder, or of several nodes of one run as one. Raises :class:`InputError`."""
    cases = [_load(folder) for folder in folders]
    hangs = [hang_of(case) for case in cases]
    first = cases[0]
    if len(cases) == 1:
        return first
    joined = Hang(
        seconds=min(hang.seconds for hang in hangs),
        taken=min(hang.taken for hang in hangs),
        processes=tuple(seen for hang in hangs for seen in hang.processes),
        hosts=tuple(dict.fromkeys(host for hang in hangs for host in hang.hosts)),
        ended=tuple(pid for hang in hangs for pid in hang.ended),
        records=tuple(record for hang in hangs for record in hang.records),
        ray=next((hang.ray for hang in hangs if hang.ray), ()),
        gpus=tuple(gpu for hang in hangs for gpu in hang.gpus),
        lacking=tuple(dict.fromkeys(text for hang in hangs for text in hang.lacking)),
    )
    target = "; ".join(dict.fromkeys(case.target for case in cases if case.target))
    return replace(first, target=target, gpus=None, observations={NAME: msgspec.to_builtins(joined)})


def _load(folder: Path) -> Case:
    if not folder.exists():
        raise InputError(f"{folder}: does not exist")
    file = folder / RECORD if folder.is_dir() else folder
    if not file.is_file():
        raise InputError(f"{folder}: a folder without {RECORD}, not one of rldoctor hang")
    case = bundle.load(file)
    if NAME not in case.observations:
        raise InputError(f"{file}: holds no stalled run")
    try:
        hang_of(case)
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: damaged record: {error}") from None
    return case


def _made(named: Path | None, name: str) -> Path:
    try:
        if named is not None:
            files.private_folder(named)
            return named
        try:
            files.private_folder(Path(name))
        except PermissionError:
            return Path(tempfile.mkdtemp(prefix=f"{name}-"))
        return Path(name)
    except FileExistsError:
        raise InputError(f"{named or name}: is there already") from None
    except OSError as error:
        raise InputError(f"{named or name}: {error.strerror}") from None


def _stacks(hang: Hang) -> dict[str, str]:
    """A text for every process that runs Python of the run."""
    shown = (seen for seen in hang.processes if seen.role not in ("ray service", "ray idle"))
    return {f"{_file_name(seen)}.txt": _process(seen) for seen in shown}


def _process(seen: Seen) -> str:
    """One process in the words of a person: what it is, then every thread with its innermost frame first."""
    cpu = f"{seen.cpu:.0%} of a core" if seen.cpu is not None else "unknown"
    head = [f"{seen.role} {seen.name}", f"pid {seen.pid} on {seen.host}, state {seen.state}, processor {cpu}"]
    head += [f"rank {seen.rank}"] if seen.rank is not None else []
    head += [f"no stacks: {seen.unread}"] if seen.unread else []
    lines = [*head, seen.command, ""]
    for thread in seen.threads:
        moved = f"{len(thread.earlier)} other stacks before" if thread.earlier else "the same stack in every sample"
        waits = f", in {thread.wait}" if thread.wait else ""
        lines.append(
            f"thread {thread.id} {thread.name}{' (main)' if thread.main else ''}: state {thread.state}{waits}, {moved}"
        )
        lines += [f"    {frame}" + (f": {frame.code}" if frame.code else "") for frame in reversed(thread.frames)]
        lines.append("")
    return "\n".join(lines)


def _logs(hang: Hang) -> dict[str, str]:
    """The end of every file that the run writes its output to, once for all its processes."""
    found: dict[tuple[str, str], Seen] = {}
    for seen in hang.processes:
        if seen.log is not None and seen.log.lines:
            found.setdefault((seen.host, seen.log.file), seen)
    return {f"{_file_name(seen)}.log": "\n".join(seen.log.lines) + "\n" for seen in found.values() if seen.log}


def _file_name(seen: Seen) -> str:
    rank = f"rank{seen.rank}-" if seen.rank is not None else ""
    return f"{rank}{_plain(seen.name)}-{seen.pid}"


def _plain(name: str) -> str:
    """A name as part of a file's."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name)[:60].strip("-.") or "process"
