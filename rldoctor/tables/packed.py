"""Tables of a package that are large and seldom asked for: one compressed JSON file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

_SUFFIX = ".json.xz"


def packages(folder: Path) -> tuple[str, ...]:
    """The packages that have a table in a folder."""
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in folder.glob(f"*{_SUFFIX}")))


def content(folder: Path, package: str) -> Any:
    """What a package's table holds. Raises ``KeyError`` where there is none."""
    import lzma  # most runs ask for none

    try:
        packed = (folder / f"{package}{_SUFFIX}").read_bytes()
    except (OSError, ValueError):  # a name out of a log may be one that no file can have
        raise KeyError(package) from None
    return msgspec.json.decode(lzma.decompress(packed))


def write(folder: Path, package: str, table: Any) -> None:
    """Writes a package's table, for the refresh."""
    import lzma

    folder.mkdir(exist_ok=True)
    # Of a text the character before tells more than the place within a word of the machine.
    best = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0, "nice_len": 273}
    packed = lzma.compress(msgspec.json.encode(table), check=lzma.CHECK_CRC32, filters=[best])
    (folder / f"{package}{_SUFFIX}").write_bytes(packed)
