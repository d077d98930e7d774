"""Tables of a package that are large and seldom asked for: one compressed JSON file for each, in a folder of their
kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from rldoctor.versions import parsed

_SUFFIX = ".json.xz"
_Kind = TypeVar("_Kind", bound="PackedTable")


class PackedTable:
    """The table of one package. ``releases`` are those read, oldest first, ``date`` is the day of the reading where the
    table tells it."""

    folder: ClassVar[Path]
    """Where the tables of a kind are."""

    def __init__(self, package: str, content: Mapping[str, Any]) -> None:
        self.package = package
        self.releases: list[str] = content["releases"]
        self.date: str = content.get("date", "")

    @classmethod
    def packages(cls) -> tuple[str, ...]:
        """The packages that have a table of this kind."""
        return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in cls.folder.glob(f"*{_SUFFIX}")))

    @classmethod
    def load(cls: type[_Kind], package: str) -> _Kind:
        """The shipped table of a package. Raises ``KeyError`` where there is none."""
        kept = (cls.folder, package)
        if kept not in _loaded:
            _loaded[kept] = cls(package, _content(*kept))
        return cast(_Kind, _loaded[kept])

    @classmethod
    def write(cls, package: str, content: Any) -> None:
        """Writes a package's table, for the refresh."""
        import lzma

        cls.folder.mkdir(exist_ok=True)
        # Of a text the character before tells more than the place within a word of the machine.
        best = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0, "nice_len": 273}
        packed = lzma.compress(msgspec.json.encode(content), check=lzma.CHECK_CRC32, filters=[best])
        (cls.folder / f"{package}{_SUFFIX}").write_bytes(packed)
        _loaded.pop((cls.folder, package), None)

    def around(self, release: str) -> tuple[int, ...]:
        """The position of a release among those read, or of the two between which it lies: what both have, it has. None
        for no version, and for one older or newer than all."""
        if release in self.releases:
            return (self.releases.index(release),)
        at = parsed(release)
        versions = [parsed(read) for read in self.releases]
        if at is None or None in versions:
            return ()
        later = sum(version < at for version in versions if version is not None)
        return (later - 1, later) if 0 < later < len(versions) else ()

    def read_for(self, release: str) -> int | None:
        """The position of a release among those read, or of the one read in its stead: the newest of its minor release,
        else the last before it. None where it is no version, or older than all."""
        at = parsed(release)
        versions = [parsed(read) for read in self.releases]
        if at is None:
            return None
        same = [p for p, v in enumerate(versions) if v is not None and v.release[:2] == at.release[:2]]
        later = [p for p in same if (v := versions[p]) is not None and v.release >= at.release]
        before = [p for p, v in enumerate(versions) if v is not None and v.release <= at.release]
        return next(iter((*later, *same[-1:], *before[-1:])), None)


# By folder and package; each kind has a folder of its own.
_loaded: dict[tuple[Path, str], PackedTable] = {}


def _content(folder: Path, package: str) -> Any:
    import lzma  # most runs ask for none

    try:
        packed = (folder / f"{package}{_SUFFIX}").read_bytes()
    except (OSError, ValueError):  # a name out of a log may be one that no file can have
        raise KeyError(package) from None
    return msgspec.json.decode(lzma.decompress(packed))


def stretches(spans: Sequence[int]) -> Iterator[tuple[int, int]]:
    """What a row keeps as ``first, last, first, last, ...``: stretches of releases, by position."""
    return zip(spans[::2], spans[1::2], strict=True)


def positions(spans: Sequence[int]) -> list[int]:
    """Every release of such stretches, by position."""
    return [position for first, last in stretches(spans) for position in range(first, last + 1)]
