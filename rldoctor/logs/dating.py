"""Which releases the frames of a run's tracebacks are of, where the log names no version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from rldoctor.frameworks import packages
from rldoctor.logs.code_paths import module_of
from rldoctor.logs.model import Frame, LoggedException
from rldoctor.tables.frames import Position, Table
from rldoctor.versions import parsed

# A fork that keeps the modules of another has its own releases, of which no table is made.
_DISTRIBUTIONS = {module: package.name for package in packages() if package.published for module in package.modules}
_FEWEST = 2  # frames; one alone may fit by chance
_MOST = 48


def dated(frames: Iterable[Frame]) -> dict[str, tuple[str, ...]]:
    """The releases that fit, oldest first, for every package whose frames rule some out."""
    found: dict[str, dict[Position, None]] = defaultdict(dict)
    for frame in frames:
        position = _position(frame)
        if position is not None:
            found[_named(position)].setdefault(position)
    dates = {}
    for package, positions in found.items():
        table = _table(package)
        if table is None:
            continue
        known = [position for position in positions if table.covers(position.module)][:_MOST]
        fitting = table.releases_of(known)
        if len(known) >= _FEWEST and 0 < len(fitting) < len(table.releases):
            dates[package] = fitting
    return dates


def version_of(releases: tuple[str, ...]) -> str | None:
    """The one release that fits, post releases counted as the one that they mend; None where there are several."""
    bases = {version.base_version for release in releases if (version := parsed(release)) is not None}
    return bases.pop() if len(bases) == 1 else None


def spans(dates: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The releases that fit, of each package: ``trl 1.13.0 to 1.16.0``."""
    ends = ((package, releases[0], releases[-1]) for package, releases in dates.items())
    return tuple(f"{package} {first if first == last else f'{first} to {last}'}" for package, first, last in ends)


def said(root: LoggedException | None) -> Iterator[str]:
    """A note that releases after the ones that fit do not have the function where it failed."""
    inner = root.frames[-1] if root is not None and root.frames else None
    position = _position(inner) if inner is not None else None
    table = _table(_named(position)) if position is not None else None
    if position is None or table is None:
        return
    last_release = table.last_with(position.module, position.function)
    if last_release is not None and last_release != table.releases[-1]:
        yield (
            f"{_named(position)} after {last_release} no longer has {position.function} of {position.module}, "
            "where it failed"
        )


def _position(frame: Frame) -> Position | None:
    module = module_of(frame.file)
    return Position(module, frame.function, frame.line) if module and frame.line is not None else None


def _named(position: Position) -> str:
    """The distribution that a frame is of."""
    top = position.module.partition(".")[0]
    return _DISTRIBUTIONS.get(top, top)


def _table(package: str) -> Table | None:
    try:
        return Table.load(package)
    except KeyError:
        return None
