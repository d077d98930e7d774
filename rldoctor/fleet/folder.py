"""A folder of bundles, one for each node: read one at a time, what cannot be read is named and the rest is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rldoctor import bundle
from rldoctor.case import Case
from rldoctor.errors import InputError
from rldoctor.fleet.model import Fleet, Unread
from rldoctor.fleet.skew import Table, classes

# More files than any cluster has nodes are not bundles of one.
MOST = 20_000


@dataclass(frozen=True)
class _Found:
    """One bundle of the folder. ``taken`` is when, in seconds since 1970."""

    file: Path
    case: Case
    taken: float
    host: str


_NOTHING = Case()


def read(folder: Path, progress: Callable[[str], None] = lambda line: None, lost: tuple[Unread, ...] = ()) -> Fleet:
    """The fleet whose bundles lie in a folder; ``lost`` are nodes of which there is none. Raises :class:`InputError`
    where not one can be read."""
    table = Table()
    unread: list[Unread] = list(lost)
    notes: list[str] = []
    newest: dict[str, tuple[int, _Found]] = {}
    for found in _bundles(folder, unread):
        before = newest.get(found.host)
        if before is not None:
            number, other = before
            older, newer = sorted((other, found), key=lambda one: one.taken)
            notes.append(_twice(older, newer))
            if older is found:
                continue
            table.leave_out(number)
        newest[found.host] = (table.add(found.host, found.case), _Found(found.file, _NOTHING, found.taken, found.host))
        if len(newest) % 500 == 0:
            progress(f"{len(newest)} bundles read")
    if not newest:
        reason = f"; {unread[0].source}: {unread[0].reason}" if unread else ""
        raise InputError(f"{folder}: no bundle in it (rldoctor bundle --output {folder}/ on every node){reason}")
    alike, apart = classes(table)
    return Fleet(
        source=str(folder),
        nodes=len(newest),
        alike=alike,
        classes=apart,
        unread=tuple(unread),
        notes=tuple(notes),
    )


def _bundles(folder: Path, unread: list[Unread]) -> Iterator[_Found]:
    for file in _files(folder):
        try:
            case = bundle.decoded(bundle.read(file), str(file))
            taken = case.node.time if case.node is not None else file.stat().st_mtime
        except (InputError, OSError) as error:
            unread.append(Unread(source=file.name, reason=str(error).removeprefix(f"{file}: ")))
            continue
        yield _Found(file, case, taken, case.node.host if case.node is not None else file.name.removesuffix(".json"))


def _files(folder: Path) -> list[Path]:
    """Everything in the folder that ends like a bundle, by name."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    if len(files) > MOST:
        raise InputError(f"{folder}: {len(files)} files; at most {MOST} nodes are compared")
    return files


def _twice(older: _Found, newer: _Found) -> str:
    """Two bundles of one node: taken twice, or two jobs on it."""
    when = f"{newer.taken - older.taken:.0f} s later"
    return f"{newer.host} is there twice: {newer.file.name} ({when}) counts, {older.file.name} does not"
