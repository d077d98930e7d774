"""A folder of bundles, one for each node: read one at a time, what cannot be read is named and the rest is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rldoctor import bundle
from rldoctor.case import Case
from rldoctor.errors import InputError
from rldoctor.fleet.model import Fleet, Unread
from rldoctor.fleet.skew import Table, classes
from rldoctor.records import dataclass

# More files than any cluster has nodes are not bundles of one.
MOST = 20_000
T = TypeVar("T")


@dataclass(frozen=True)
class _Found:
    """One bundle of the folder. ``taken`` is when, in seconds since 1970; ``host`` is what the node is called here."""

    file: Path
    case: Case
    taken: float
    host: str


def read(folder: Path, progress: Callable[[str], None] = lambda line: None, lost: tuple[Unread, ...] = ()) -> Fleet:
    """The fleet whose bundles lie in a folder; ``lost`` are nodes of which there is none. Raises :class:`InputError`
    where not one can be read."""
    table = Table()
    unread: list[Unread] = list(lost)
    notes: list[str] = []
    nodes = newest(folder, table.add, unread, notes, drop=table.leave_out, progress=progress)
    alike, apart = classes(table)
    return Fleet(
        source=str(folder),
        nodes=len(nodes),
        alike=alike,
        classes=apart,
        unread=tuple(unread),
        notes=tuple(notes),
    )


def newest(
    folder: Path,
    take: Callable[[str, Case], T],
    unread: list[Unread],
    notes: list[str],
    *,
    drop: Callable[[T], None] = lambda taken: None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, T]:
    """What ``take`` makes of each node's newest bundle, by the node's name; what it made of an older one is dropped.
    Files that cannot be read and nodes that are there twice are added to ``unread`` and ``notes``. Raises
    :class:`InputError` where not one bundle can be read."""
    files: dict[str, _Found] = {}
    made: dict[str, T] = {}
    for found in _bundles(folder, unread):
        before = files.get(found.host)
        if before is not None and _are_two(before, found):
            notes.append(_namesakes(before, found))
            found = replace(found, host=f"{found.host} ({found.file.stem})")
        elif before is not None:
            older, newer = sorted((before, found), key=lambda one: one.taken)
            notes.append(_twice(older, newer))
            if older is found:
                continue
            drop(made[found.host])
        files[found.host] = replace(found, case=Case(environment=found.case.environment, node=found.case.node))
        made[found.host] = take(found.host, found.case)
        if len(made) % 500 == 0:
            progress(f"{len(made)} bundles read")
    if not made:
        reason = f"; {unread[0].source}: {unread[0].reason}" if unread else ""
        into = f"{str(folder).rstrip('/')}/"
        raise InputError(f"{folder}: no bundle in it (rldoctor bundle --output {into} on every node){reason}")
    return made


def _bundles(folder: Path, unread: list[Unread]) -> Iterator[_Found]:
    for file in _files(folder):
        try:
            case = bundle.decoded(bundle.read(file), str(file))
            taken = case.node.time if case.node is not None else file.stat().st_mtime
        except (InputError, OSError) as error:
            unread.append(Unread(source=file.name, reason=str(error).removeprefix(f"{file}: ")))
            continue
        host = case.node.host if case.node is not None else ""
        yield _Found(file, case, taken, host or file.name.removesuffix(".json"))


def _files(folder: Path) -> list[Path]:
    """Everything in the folder that ends like a bundle, by name."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    if len(files) > MOST:
        raise InputError(f"{folder}: {len(files)} files; at most {MOST} nodes are compared")
    return files


def _are_two(one: _Found, other: _Found) -> bool:
    nodes = one.case.node, other.case.node
    return nodes[0] is not None and nodes[1] is not None and nodes[0].is_beside(nodes[1])


def _namesakes(one: _Found, other: _Found) -> str:
    files = f"{one.file.name}, {other.file.name}"
    return f"two machines are called {one.host} ({files}): who counts a node's ranks by its name takes them for one"


def _twice(older: _Found, newer: _Found) -> str:
    """Two bundles of one node: taken twice, or two jobs on it."""
    jobs = [(one.case.environment or {}).get("SLURM_JOB_ID") for one in (older, newer)]
    what = f", for the jobs {jobs[0]} and {jobs[1]}" if all(jobs) and jobs[0] != jobs[1] else ""
    when = f"{newer.taken - older.taken:.0f} s later"
    return f"{newer.host} is there twice{what}: {newer.file.name} ({when}) counts, {older.file.name} does not"
